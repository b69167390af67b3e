"""Rows of model types by family, and the readers (`reader: module.function`) of those that a row cannot describe."""
