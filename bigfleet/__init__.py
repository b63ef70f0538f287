"""BigFleet: one infrastructure autoscaler for thousands of Kubernetes clusters. The system under test."""
