"""The table of offers: listed by chip, and imported from a catalog."""
