"""The lifecycle of a run: install, settle, soak, gates, evidence, verdict, teardown. Read lifecycle.py first."""
