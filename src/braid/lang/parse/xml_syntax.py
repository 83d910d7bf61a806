"""The syntax of query blocks and of joins between them (see `xml_parser.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from braid.lang.parse.problems import At


@dataclass(frozen=True, slots=True)
class Word:
    """The name of an element or of a variable, or a `:parameter` in place of one."""

    name: str
    parameter: bool
    at: At


@dataclass(frozen=True, slots=True)
class Literal:
    """A string or a number that a value is compared with, or a `:parameter`."""

    value: str | float
    parameter: bool
    at: At


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: `axis` is an `algebra.documents.Axis`; `name` None is `*`."""

    axis: int
    name: Word | None
    variable: Word | None
    predicates: tuple[Predicate, ...]
    at: At


@dataclass(frozen=True, slots=True)
class Predicate:
    """What stands in brackets, or one part of it: a path that exists, perhaps with a value.

    No steps: the node itself.
    """

    steps: tuple[Step, ...]
    operator: str | None
    literal: Literal | None
    at: At


@dataclass(frozen=True, slots=True)
class Block:
    """`S//book->x1[./author->x2]`; no steps: the documents of a stream as they are.

    `json`: it was written in JSONPath, and the first step is `$`.
    """

    stream: Word
    steps: tuple[Step, ...]
    at: At
    json: bool = False


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a comparison in a join: a variable, perhaps with a path from it, or a constant.

    `predicates`: what stands in brackets right behind the variable.
    """

    variable: Word | None
    steps: tuple[Step, ...]
    literal: Literal | None
    at: At
    json: bool = False
    predicates: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    left: Operand
    operator: str
    right: Operand
    at: At


@dataclass(frozen=True, slots=True)
class Window:
    """How far apart in time: microseconds or ticks, endless, or a `:parameter`."""

    amount: int | None
    ticks: bool
    parameter: str | None
    at: At


@dataclass(frozen=True, slots=True)
class Join:
    """FOLLOWED BY or JOIN of a block and others. `exchanged`: it stands to the left of these."""

    kind: str
    comparisons: tuple[Comparison, ...]
    window: Window
    at: At
    exchanged: bool = False


@dataclass(frozen=True, slots=True)
class Documents:
    """Blocks, and the join of each but the first with those before it.

    What is joined first comes first; `places`: where each block stands in the text.
    """

    blocks: tuple[Block, ...]
    joins: tuple[Join, ...]
    places: tuple[int, ...]
    at: At
