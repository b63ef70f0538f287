"""Names and services: how a pod finds another one on a machine without a network of its own."""
