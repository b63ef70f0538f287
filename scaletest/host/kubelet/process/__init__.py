"""How a container's process is started, and what it is kept from."""
