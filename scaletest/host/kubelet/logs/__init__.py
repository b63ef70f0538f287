"""Container logs as files, with their times."""
