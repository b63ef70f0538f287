"""From a YAML file to a model: reading, positions, problems explained, JSON Schemas."""
