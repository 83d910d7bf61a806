"""What the reference semantics computes with: events, and what an expression sees of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from braid.algebra.expressions import Source
from braid.algebra.schema import Schema

#: User-defined functions by name, without the prefix `udf:`.
Udfs = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Event:
    """Values in the order of the stream's schema, and the closed interval `[start, end]`.

    The event *occurs* at `end`; a point event has `start == end`. Values follow the
    conventions of `algebra/expressions.py`.
    """

    values: tuple[Any, ...]
    start: int
    end: int

    @property
    def duration(self) -> int:
        return self.end - self.start

    def row(self, schema: Schema) -> dict[str, Any]:
        return dict(zip(schema.names, self.values, strict=True))


@dataclass(frozen=True)
class Bindings:
    """Where an expression finds its values: one row per source, DUR, user-defined functions."""

    rows: Mapping[Source, Mapping[str, Any]]
    duration: int = 0
    udfs: Udfs = field(default_factory=dict)
