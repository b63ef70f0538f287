"""A fleet that stands between commands: `up`, `status`, `down`, and what killed runners left (`gc`)."""
