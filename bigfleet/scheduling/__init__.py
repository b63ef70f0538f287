"""Where Pods go, as kube-scheduler would decide: used by the simulator and by the load-driver's first fill."""
