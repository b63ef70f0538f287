"""The simulator: the real engine in virtual time, with modelled clusters, Pods and providers around it."""
