"""Where the processes of container `workload` listen, on the pod's address.

See docs/reference/harness.md#names-and-ports.
"""

OPERATOR_PORT = 8770
LOAD_DRIVER_PORT = 8771
POD_CONTROLLER_PORT = 8773
NODE_CREATOR_PORT = 8775
# The supervisor's own: what the kubelet asks.
HEALTH_PORT = 8777
