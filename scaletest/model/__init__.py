"""Profile, substrate, catalog, geometry, cost, demand draw and plan: pure models and arithmetic."""
