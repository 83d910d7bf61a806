"""Schemas of streams: named, typed attributes in order. Time is not an attribute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

#: What the time of a stream counts: microseconds since 1970, or the user's own integer ticks.
MICROSECONDS = "us"
TICKS = "tick"


@dataclass(frozen=True)
class Attribute:
    name: str
    type: pa.DataType


@dataclass(frozen=True)
class Schema:
    """Attributes in order, with distinct names."""

    attributes: tuple[Attribute, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.attributes)

    def __getstate__(self) -> dict[str, object]:
        return {"attributes": self.attributes}  # a hash is of one process only

    def __post_init__(self) -> None:
        assert len(self._index) == len(self.attributes), f"duplicate names in {self.names}"

    @staticmethod
    def of(pairs: Iterable[tuple[str, pa.DataType]]) -> Schema:
        return Schema(tuple(Attribute(name, type_) for name, type_ in pairs))

    @cached_property
    def _index(self) -> dict[str, int]:
        return {attribute.name: i for i, attribute in enumerate(self.attributes)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def index(self, name: str) -> int:
        return self._index[name]

    def type_of(self, name: str) -> pa.DataType:
        return self.attributes[self._index[name]].type


def shown_names(names: Iterable[str]) -> tuple[str, ...]:
    """The columns of a table of events: start, end, then attributes, which give way to these.

    >>> shown_names(["Name", "start"])
    ('start', 'end', 'Name', 'start_')
    """
    given = tuple(names)
    taken = {"start", "end", *given}
    shown = ["start", "end"]
    for name in given:
        if name in ("start", "end"):
            while name in taken:
                name += "_"
            taken.add(name)
        shown.append(name)
    return tuple(shown)
