"""The embedded host: a real Kubernetes control plane on loopback and a kubelet that runs pods as local processes."""
