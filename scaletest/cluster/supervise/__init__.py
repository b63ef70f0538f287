"""Processes of one container that live and die together: children, forks, spares, exit codes, health."""
