"""The engine's data, in columns: machines, needs, profiles, kinds, names."""
