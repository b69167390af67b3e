"""A plain JAX transformer built from a model YAML, predicted by the engine and timed."""
