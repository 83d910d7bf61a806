"""Several joins in one query over documents: each joins what the one before it gave.

What the first blocks of a query were bound to flows to the next join as rows: the ids of their
documents, what is shown of them, the values of variables, and values that later joins compare. For the
join that reads them they are documents of a form of their own: a pattern of one node for the row and
one below it for each value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from braid.algebra.documents import (
    RESULT,
    Axis,
    Block,
    Documents,
    PatternNode,
    ValueJoin,
    subtree_of,
)
from braid.algebra.expressions import Expression

#: What is handed on of a block's match: the document's id, what the block is about, a node's value,
#: a node as the content of an element.
DOCUMENT, PART, VALUE, COPY = 0, 1, 2, 3


@dataclass(frozen=True, order=True)
class Carried:
    """One value of a row; `node` is that of the block whose value it is."""

    what: int
    block: int
    node: int = -1


def carried(query: Documents, count: int, wanted: frozenset[str]) -> tuple[Carried, ...]:
    """What the first blocks hand on: what is put out in the end, and what later joins compare."""
    blocks = list(enumerate(query.blocks[:count]))
    found = [Carried(DOCUMENT, n) for n, _ in blocks if query.document(n) in wanted]
    if RESULT in wanted:
        found += [Carried(PART, number) for number, _ in blocks]
    values = {(n, node) for n, b in blocks for name, node in b.variables if name in wanted}
    values |= {(j.blocks[0], j.first) for j in query.joins if j.blocks[0] < count <= j.blocks[1]}
    copies = [
        Carried(COPY, n, node)
        for n, b in blocks
        for name, node in b.variables
        if subtree_of(name) in wanted
    ]
    return (*found, *(Carried(VALUE, *place) for place in sorted(values)), *copies)


@dataclass(frozen=True)
class Side:
    """What one side of a join is: a block of the query, or rows of the blocks before it.

    `number`: the block, -1 for rows. `needed`: nodes that are bound whether they are shown or not.
    """

    block: Block
    number: int
    needed: frozenset[int]


@dataclass(frozen=True)
class View:
    """The join of a query that one m-op does, as one of at most two sides."""

    sides: tuple[Side, ...]
    kind: str
    joins: tuple[ValueJoin, ...]
    window: Expression | None
    #: Whether rows that differ in what nobody sees are one result.
    several: bool

    @cached_property
    def has_rows(self) -> bool:
        return self.sides[0].number < 0


@lru_cache(4096)
def view_of(
    query: Documents, bound: tuple[Carried, ...] | None, handed: tuple[Carried, ...] | None
) -> View:
    """`bound`: what the rows of the first input hold, if it has rows; `handed`: what goes on."""
    last = len(query.blocks) - 1
    later = [(c.block, c.node) for c in handed or () if c.what == VALUE]
    joins = query.joins if bound is None else query.joins_with(last)
    sides = []
    for number in range(last + 1) if bound is None else (-1, last):
        if number < 0:
            joined = {_place(bound or (), join) for join in joins}
            sides.append(Side(_pattern(len(bound or ())), -1, frozenset(joined)))
            continue
        joined = {j.first for j in joins if j.blocks[0] == number}
        joined |= {j.second for j in joins if j.blocks[1] == number}
        joined |= {node for block, node in later if block == number}
        sides.append(Side(query.blocks[number], number, frozenset(joined)))
    if bound is not None:
        joins = tuple(ValueJoin(_place(bound, j), j.operator, j.second) for j in joins)
    kind = query.kinds[-1] if query.kinds else ""
    window = query.windows[-1] if query.windows else None
    return View(tuple(sides), kind, joins, window, _has_several(query, bound))


def _has_several(query: Documents, bound: tuple[Carried, ...] | None) -> bool:
    """Whether one binding of what is shown may come as several rows."""
    if bound is None:
        return False
    asked = [(j.blocks[0], j.first) for j in query.joins if j.blocks[1] > 1]
    asked += [(c.block, c.node) for c in bound if c.what == VALUE]
    return any(node not in query.blocks[block].shown for block, node in asked)


def _pattern(count: int) -> Block:
    row = PatternNode(-1, Axis.CHILD, None)
    return Block((row, *(PatternNode(0, Axis.CHILD, None) for _ in range(count))), 0)


def _place(bound: tuple[Carried, ...], join: ValueJoin) -> int:
    """The node of the pattern of rows that a join compares."""
    return 1 + bound.index(Carried(VALUE, join.blocks[0], join.first))
