"""The kubelet's own server: logs, exec and port-forward, over HTTP and SPDY."""
