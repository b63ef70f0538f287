"""The node-creator: gives an announced machine its Node, and phones home to the provider."""
