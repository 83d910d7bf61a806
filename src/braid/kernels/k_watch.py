"""What joins watch of arrivals, event by event."""

from __future__ import annotations

from braid.kernels.runtime import kernel


@kernel()
def before(frame: int, driver: int, record: int, joins: bool) -> None:
    """An event has come, whether or not it joins; it is not held yet."""


@kernel()
def after(frame: int, driver: int, record: int) -> None:
    """An event that is in no result is going to be held."""
