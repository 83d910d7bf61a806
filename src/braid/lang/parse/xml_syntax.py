"""The syntax of query blocks and of joins between them (see `xml_parser.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from braid.lang.parse.problems import At


@dataclass(frozen=True, slots=True)
class Word:
    """The name of an element or of a variable, or a `:parameter` in its place."""

    name: str
    parameter: bool
    at: At


@dataclass(frozen=True, slots=True)
class Literal:
    """A string or a number in a comparison, or a `:parameter`."""

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
    """A predicate in brackets, or a part of it: an existing path, optionally compared with a value.

    Without steps, it is about the node itself.
    """

    steps: tuple[Step, ...]
    operator: str | None
    literal: Literal | None
    at: At


@dataclass(frozen=True, slots=True)
class Block:
    """`S//book->x1[./author->x2]`; without steps, the whole documents of a stream.

    `json`: it is in JSONPath, and the first step is `$`.
    """

    stream: Word
    steps: tuple[Step, ...]
    at: At
    json: bool = False


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a comparison in a join: a variable, optionally with a path, or a constant.

    `predicates`: the predicates in brackets after the variable.
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
    """The longest distance in time: microseconds or ticks, unbounded, or a `:parameter`."""

    amount: int | None
    ticks: bool
    parameter: str | None
    at: At


@dataclass(frozen=True, slots=True)
class Join:
    """FOLLOWED BY or JOIN of a block and others. `exchanged`: the block is to the left of these."""

    kind: str
    comparisons: tuple[Comparison, ...]
    window: Window
    at: At
    exchanged: bool = False


@dataclass(frozen=True, slots=True)
class Documents:
    """Blocks, and the join of each but the first with those before it.

    The blocks are in the order of the joins; `places`: the position of each block in the text.
    """

    blocks: tuple[Block, ...]
    joins: tuple[Join, ...]
    places: tuple[int, ...]
    at: At
