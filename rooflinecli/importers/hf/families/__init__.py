"""One file per family of Hugging Face configs; FAMILIES in each maps a model_type to how it is read."""
