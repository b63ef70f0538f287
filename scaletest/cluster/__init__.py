"""What runs inside a kwok-cluster pod: the two supervisors, the load-driver and the node-creator."""
