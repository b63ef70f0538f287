"""Where a run goes: the embedded host or a kube context, its API, Helm, and the rights that a run needs there."""
