"""The load-driver: makes a cluster's demand, lets it churn and burst, and binds the first fill."""
