"""The Grafana dashboard of a run, and the one that is stored."""
