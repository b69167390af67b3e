"""A user's own measurements: read, held against the estimate, and fitted as factors on the engine's constants (`roofline calibrate`)."""
