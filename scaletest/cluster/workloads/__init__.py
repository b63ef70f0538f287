"""What a drawn workload is in Kubernetes: its manifest, and what its Pods ask for."""
