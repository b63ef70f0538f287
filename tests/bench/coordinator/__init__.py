"""Coordinators: how fast another one leads, and what placing domains costs."""
