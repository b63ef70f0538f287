"""The gates as data: bars, measures, windows, witnesses, suspects."""
