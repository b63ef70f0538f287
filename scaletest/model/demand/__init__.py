"""The draw and its consequences: needs in machines, seeded machines, bursts and steps."""
