"""KWOK clusters, their processes and their start; coordinators."""
