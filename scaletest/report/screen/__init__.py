"""A run on a terminal: live, as plain lines, or as JSON lines."""
