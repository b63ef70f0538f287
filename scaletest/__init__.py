"""The scale-test harness: proves that BigFleet holds its SLOs at a given size, with evidence."""
