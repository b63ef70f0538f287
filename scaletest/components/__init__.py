"""The processes of a Kubernetes control plane, each built in one place: for the embedded host and for KWOK clusters."""
