"""The documents that people write (profile, substrate, catalog) and the files that pods get, as strict models."""
