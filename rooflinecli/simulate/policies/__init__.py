"""Scheduler policies: `compose(replica)` gives the prefill chunks of a step, and whether decodes ride along. One file is one scheduler."""
