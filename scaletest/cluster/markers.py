"""Files in the volume of a kwok-cluster pod's two containers: how one knows what the other has reached."""

# Made when the control plane is up, removed when it goes.
READY_MARKER = "apiserver-ready"
# Made when the demand exists as CapacityRequests.
DEMAND_MARKER = "demand-ready"
# Made when the load-driver has bound its share of the first fill; kube-scheduler may rest until then.
FILL_MARKER = "first-fill-bound"
