"""Queries over documents: tree patterns, and joins between the documents that match them.

A block is a tree pattern over the documents of one stream. A query has one block, or several whose
documents are joined one after the other: FOLLOWED BY pairs what was joined so far with a later
document of the next block, JOIN with one that is near it in time. Names of elements, constants and
windows are expressions, so that queries which differ only in them have one template.

The law is in `reference/documents.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

from braid.algebra.expressions import Expression, Remembers
from braid.algebra.schema import Schema
from braid.algebra.types import STRING

if TYPE_CHECKING:
    from braid.algebra.nodes import Node

#: A window without an end: longer than all times that there are.
ENDLESS = 2**61

FOLLOWED_BY = "FOLLOWED BY"
JOIN = "JOIN"
#: FOLLOWED BY with what comes later written first: how a join to the right of one block is taken.
PRECEDED_BY = "PRECEDED BY"

RESULT = "result"
#: Documents that are larger (in characters), or deeper, are refused.
LARGEST = 10_000_000
DEEPEST = 200
#: Numbers in JSON with more places before or behind the point are refused: no double is so large or
#: small.
MOST_PLACES = 400

#: What the node of a whole JSON document is called; no element of XML can be.
DOCUMENT = "$"

_MARKUP = re.compile(r"[\ufeff\s]*<")


class Axis(IntEnum):
    """How a node of a pattern is reached from the one above it."""

    CHILD = 0
    DESCENDANT = 1
    ATTRIBUTE = 2
    DESCENDANT_ATTRIBUTE = 3


@dataclass(frozen=True)
class Test:
    """A comparison of a node's value with a constant: as text, or as a number if that is one."""

    operator: str
    constant: Expression


@dataclass(frozen=True)
class PatternNode:
    """One node of a pattern. `parent` -1: the document itself. `name` None: any (`*`)."""

    parent: int
    axis: Axis
    name: Expression | None
    tests: tuple[Test, ...] = ()
    variable: str | None = None


@dataclass(frozen=True)
class Block:
    """A tree pattern, parents before children; `root` is the node that the block is about."""

    nodes: tuple[PatternNode, ...]
    root: int

    def path(self, number: int) -> tuple[int, ...]:
        """The nodes from the document down to one, that one included."""
        found = []
        while number >= 0:
            found.append(number)
            number = self.nodes[number].parent
        return tuple(reversed(found))

    @cached_property
    def variables(self) -> tuple[tuple[str, int], ...]:
        return tuple((n.variable, i) for i, n in enumerate(self.nodes) if n.variable is not None)

    @cached_property
    def shown(self) -> tuple[int, ...]:
        """The nodes whose bindings tell matches apart: those with a name, and the root."""
        return tuple(
            i for i, n in enumerate(self.nodes) if n.variable is not None or i == self.root
        )


@dataclass(frozen=True)
class ValueJoin:
    """A comparison of the values of a node of one block and a node of a later one, `blocks`."""

    first: int
    operator: str
    second: int
    blocks: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class Documents(Remembers):
    """The matches of one block, or of several, each joined with those before it.

    `sources`: the stream that each block reads, `columns` the column with its documents. `kinds`
    and `windows` belong to the joins of each block but the first with those before it; a
    comparison is part of the join with the later of its blocks. `places`: where each block stands
    in the text, if that is another order; results have the order of the text. `streams`: what the
    sources are called, for messages: a source may have become the expression that is published.
    `copied`: the variables whose nodes are put out as documents too, in columns of their own.
    References: none; all expressions are constants.
    """

    sources: tuple[Node, ...]
    columns: tuple[str, ...]
    blocks: tuple[Block, ...]
    kinds: tuple[str, ...] = ()
    joins: tuple[ValueJoin, ...] = ()
    windows: tuple[Expression, ...] = ()
    places: tuple[int, ...] = ()
    copied: tuple[str, ...] = ()
    streams: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        assert len(self.sources) == len(self.columns) == len(self.blocks)
        assert len(self.blocks) - 1 == len(self.kinds) == len(self.windows)
        assert all(first < second < len(self.blocks) for first, second in self.pairs)
        assert not self.places or sorted(self.places) == list(range(len(self.blocks)))
        assert len({source.unit for source in self.sources}) == 1, "different clocks"

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        said = (name for name in self.__match_args__ if name != "streams")
        return hash(tuple([self.__dict__[name] for name in said]))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.sources

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, in the order of the text."""
        return tuple(name for n in self.written for name, _ in self.blocks[n].variables)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The blocks that each comparison is between."""
        return tuple(join.blocks for join in self.joins)

    def joins_with(self, number: int) -> tuple[ValueJoin, ...]:
        """What the join of a block with those before it compares."""
        return tuple(join for join in self.joins if join.blocks[1] == number)

    def prefix(self, count: int) -> Documents:
        """The query of the first blocks alone."""
        return replace(
            self,
            sources=self.sources[:count],
            columns=self.columns[:count],
            blocks=self.blocks[:count],
            kinds=self.kinds[: count - 1],
            joins=tuple(join for join in self.joins if join.blocks[1] < count),
            windows=self.windows[: count - 1],
            places=(),
            copied=(),
            streams=self.streams[:count],
        )

    def place(self, number: int) -> int:
        """Where a block stands in the text."""
        return self.places[number] if self.places else number

    @cached_property
    def written(self) -> tuple[int, ...]:
        """The blocks in the order of the text."""
        return tuple(sorted(range(len(self.blocks)), key=self.place))

    @cached_property
    def schema(self) -> Schema:
        """The ids of the documents, the values of the variables, the result as a document, and the
        copies of nodes."""
        names = [self.document(number) for number in self.written]
        copies = map(subtree_of, self.copied)
        return Schema.of((name, STRING) for name in (*names, *self.variables, RESULT, *copies))

    def document(self, number: int) -> str:
        """The column with the id of a block's document."""
        return f"document_{self.place(number) + 1}" if len(self.blocks) > 1 else "document"

    @property
    def unit(self) -> str:
        return self.sources[0].unit

    def changed(self, change: Callable[[Expression], Expression]) -> Documents:
        """The same query with other constants."""
        blocks = tuple(_changed(block, change) for block in self.blocks)
        return replace(self, blocks=blocks, windows=tuple(map(change, self.windows)))

    def over(self, sources: tuple[Node, ...]) -> Documents:
        """The same query of other streams."""
        return replace(self, sources=sources)

    def constants(self) -> Iterator[Expression]:
        """Every constant, in the order in which the blocks have them; the windows last."""
        for block in self.blocks:
            for node in block.nodes:
                if node.name is not None:
                    yield node.name
                for test in node.tests:
                    yield test.constant
        yield from self.windows


def _changed(block: Block, change: Callable[[Expression], Expression]) -> Block:
    nodes = tuple(
        replace(
            node,
            name=None if node.name is None else change(node.name),
            tests=tuple(replace(t, constant=change(t.constant)) for t in node.tests),
        )
        for node in block.nodes
    )
    return Block(nodes, block.root)


# ---- values ----

_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:\d+(?:\.\d*)?|\.\d+))[ \t\r\n]*\Z")
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?\Z"
)

TEXT, NUMBER, TIME = 0, 1, 2


def number_of(text: str) -> float | None:
    """What XPath's number() makes of a text; None for what is no number."""
    match = _NUMBER.match(text)
    return float(match[1]) if match else None


def time_of(text: str) -> int | None:
    """A date or a time in the form of ISO 8601, in microseconds since 1970; UTC if it has no zone."""
    if _TIME.match(text) is None:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    if read.tzinfo is None:
        read = read.replace(tzinfo=UTC)
    return (read - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def order_of(text: str) -> tuple[int, float]:
    """What a text is when values are ordered, and its place among those of that kind.

    Two numbers are compared as numbers, two times as times, everything else as texts.
    """
    number = number_of(text)
    if number is not None:
        return NUMBER, number
    time = time_of(text)
    return (TEXT, 0.0) if time is None else (TIME, float(time))


def subtree_of(variable: str) -> str:
    """The column with the subtree of a variable. No variable has such a name."""
    return f"<{variable}>"


def is_subtree(name: str) -> bool:
    return name.startswith("<")


def is_xml(text: str) -> bool:
    """Whether a text can only be XML. No JSON text begins like this."""
    return _MARKUP.match(text) is not None


def document_id(text: str, end: int) -> str:
    """What a document is known by where its stream has no column `id`: its content and its time."""
    return hashlib.blake2b(f"{end}\0{text}".encode(), digest_size=8).hexdigest()
