"""The phases of a cycle: credit, acquisition, preemption, shrinking; parked needs and standing shortfalls."""
