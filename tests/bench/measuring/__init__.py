"""What every benchmark does alike: it says where it runs, cleans up, and reports."""
