"""What one cluster's own objects say, beside what BigFleet says of them: the figures that a verdict compares."""
