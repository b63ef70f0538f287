"""What things of a run are called on its cluster, unless somebody says otherwise (spec/harness.md, Appendix B)."""

RELEASE = "scaletest"
NAMESPACE = "bigfleet-scaletest"
PROMETHEUS_POD = "prometheus-0"
