"""What Prometheus says about a gate: values, envelopes, gaps, recoveries."""
