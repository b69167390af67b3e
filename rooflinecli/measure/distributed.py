"""Several hosts through jax.distributed, JAX's own engine; a single host needs nothing."""

from __future__ import annotations


def start(coordinator: str | None, processes: int | None, process_id: int | None) -> None:
    """Join the other processes. Raises UsageError when only part of the three is given."""
    given = (coordinator, processes, process_id)
    if all(g is None for g in given):
        return
    if any(g is None for g in given):
        from rooflinecli.core.errors import UsageError

        raise UsageError("several hosts need --coordinator HOST:PORT, --processes N and --process-id I together")
    import jax

    jax.distributed.initialize(coordinator, processes, process_id)


def is_leader() -> bool:
    """True for the process that prints and writes."""
    import jax

    return jax.process_index() == 0
