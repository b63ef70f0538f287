"""Operators' sessions: roll-ups in, notices and questions out, and the needs table."""
