"""What the m-op of detections does, as data; see `specs.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from braid.algebra.detection import ANSWER, Path, Settings
from braid.algebra.schema import Attribute, Schema
from braid.plan.predicates import Constant
from braid.plan.routes import Recipe
from braid.plan.specs import Shape, Spec


@dataclass(frozen=True)
class Source:
    """An input channel. `kept`: the column that says whether an event counts, if not all do.
    `order`: the columns that order events of one instant, where a window by rows is over it."""

    shape: Shape
    kept: str | None
    order: tuple[str, ...]
    membered: bool


@dataclass(frozen=True)
class DetectionSpec(Spec):
    """For each member: an answer to each batch of its inputs, as `reference/detection.py` says.

    The inputs are streams of the events that count, or, under windows by rows, of all events; only
    those that start at `birth` or later are seen.
    """

    sources: tuple[Source, ...]
    unit: str
    birth: int | None = None
    #: The attributes of PARTITION BY, as answers have them.
    partition: tuple[Attribute, ...] = ()

    @cached_property
    def output(self) -> Shape:
        return Shape(Schema((*self.partition, *ANSWER)))

    @property
    def stateful(self) -> bool:
        return True

    @property
    def acts_on_time(self) -> bool:
        return True

    def describe(self) -> str:
        keys = ", ".join(attribute.name for attribute in self.partition)
        return f"detect over {len(self.sources)} inputs" + (f" by {keys}" if keys else "")


@dataclass(frozen=True)
class Dimension:
    """One way in which an input is hashed: which columns, into how many buckets."""

    columns: tuple[str, ...]
    buckets: int


@dataclass(frozen=True)
class Edge:
    """Two inputs of a detection that are compared, and by which columns of each."""

    first: int
    first_columns: tuple[str, ...]
    second: int
    second_columns: tuple[str, ...]

    def columns(self, number: int) -> tuple[str, ...]:
        return self.first_columns if number == self.first else self.second_columns


@dataclass(frozen=True)
class DetectionRecipe(Recipe):
    """One detection: for each of its inputs the source that it reads, the kind and the size of its
    window; who is compared with whom; the paths; how it is to be answered.

    `merged`: positions of paths (by path and position) at which one bucket stands for both edges.
    `by`: for each input the columns of the key that it is partitioned by, if it is.
    """

    sources: tuple[int, ...]
    kinds: tuple[str, ...]
    sizes: tuple[Constant | int, ...]
    edges: tuple[Edge, ...]
    paths: tuple[Path, ...]
    merged: tuple[tuple[int, int], ...]
    settings: Settings
    by: tuple[tuple[str, ...], ...] = ()

    def compared(self) -> tuple[Edge, ...]:
        """What events of two inputs have in common where these are compared: the key as well."""
        if not self.by:
            return self.edges
        return tuple(
            Edge(
                edge.first,
                (*edge.first_columns, *self.by[edge.first]),
                edge.second,
                (*edge.second_columns, *self.by[edge.second]),
            )
            for edge in self.edges
        )

    def dimensions(self, path: int, position: int) -> tuple[Dimension, ...]:
        """How the synopsis at a position of a path is hashed: towards its start, towards its end."""
        way = self.paths[path]
        number, around = way.inputs[position], way.around(position)
        found = tuple(
            Dimension(self.edges[e].columns(number), self.settings.buckets[e]) for e in around
        )
        return found[:1] if (path, position) in self.merged else found

    def equations(self) -> Iterator[str]:
        """The query equation of each path: what is multiplied, and from where to where."""
        for number, path in enumerate(self.paths):
            parts = []
            for position, input_ in enumerate(path.inputs):
                sizes = [d.buckets for d in self.dimensions(number, position)]
                shape = "×".join(map(str, sizes if len(sizes) > 1 else [1, *sizes]))
                parts.append(f"{self.settings.labels[input_]}[{shape}]")
            yield " × ".join(parts)


def detection_lines(found: dict[str, Any]) -> list[str]:
    """For `explain`: every equation, and what is kept."""
    lines = [f"equation {text}" for text in found["equations"]]
    if "values" in found:
        lines.append(f"each of {found['values']:,} keys has windows and batches of its own")
    if found["more"]:
        lines.append(f"and {found['more']:,} more equations")
    lines.append(
        f"keeps {found['synopses']:,} synopses of {found['logs']:,} windows, "
        f"{found['synopsis_bytes']:,} bytes; keys of {found['keys']:,} events to verify, "
        f"{found['key_bytes']:,} bytes"
    )
    lines.append(
        f"batches {found['batches']:,}: {found['zeros']:,} empty by the synopses, "
        f"{found['verified']:,} verified ({found['refuted']:,} of them without a result), "
        f"{found['unverified']:,} reported unverified"
    )
    return lines
