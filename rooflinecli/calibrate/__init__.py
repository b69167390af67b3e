"""Calibration on a user's measurements: rows compared with the estimate and fitted as factors on the engine's constants."""
