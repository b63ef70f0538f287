"""The checks by area; each function's docstring is the rule that it holds a provider to."""
