"""`bigfleetctl`: what people ask of the coordinators and shards, and tell them."""
