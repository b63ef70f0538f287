"""A kubelet that runs the containers of its node's pods as local processes."""
