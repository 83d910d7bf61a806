"""What a join with constraints holds and what it has found, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def constraint_lines(found: dict[str, Any]) -> Iterator[str]:
    """Of each input: what is in memory, what is aside; then the constraints."""
    for number, (window, held, done) in enumerate(
        zip(found["windows"], found["inputs"], found["one_result"], strict=True)
    ):
        line = f"{number}: window {window} inside; holds {held['rows']:,} rows"
        if held["aside"]:
            line += f", {held['aside']:,} aside"
        if done:
            line += "; a row leaves with its only result"
        yield line
