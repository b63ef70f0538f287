"""The steps of a run in their order: preflight, install, settle, soak, evidence, teardown."""
