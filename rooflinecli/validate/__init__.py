"""Predictions compared with measurements: tables of errors and of the coverage of the intervals."""
