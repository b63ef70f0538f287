"""What gRPC clients and servers share: finding the leader, unreadable requests, why a server does not answer."""
