"""report.html: a run on one page, with pictures."""
