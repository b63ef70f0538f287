"""Container `apiserver` of a kwok-cluster pod: etcd, kube-apiserver, controllers, scheduler and kwok of one cluster."""
