"""The paths and predicates of all blocks, as one automaton (see `operators/documents/kernels/match.py`).

States are known by what leads to them: the state before, axis, name, and the predicates that a node
must satisfy. Members of a template bring arrays of names and constants; each distinct step is
looked up once. Nothing is taken out again: a path costs a few words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.algebra.documents import Block, PatternNode
from braid.algebra.types import Kind, kind_of
from braid.jit.records import filled
from braid.operators.core.constants import Constants
from braid.operators.core.values import Strings, Words
from braid.operators.documents.edge_digests import EdgeSigns, Texts
from braid.operators.documents.kernels import match as kernel
from braid.operators.documents.kernels.key_table import Entry, KeyTable, fill
from braid.operators.documents.kernels.records import Edge, PathState, Predicate
from braid.operators.documents.spec import OPERATORS, constant_of

_EMPTY = np.empty(0, np.int64)


def interned(known: dict[tuple[int, ...], int], columns: Sequence[Words], count: int) -> Words:
    """The number of each row of some columns; rows that are new get the next numbers."""
    rows = np.empty((count, len(columns)), np.int64)
    for k, column in enumerate(columns):
        rows[:, k] = column
    with np.errstate(over="ignore"):
        mixed = np.zeros(count, np.uint64)
        for k in range(len(columns)):
            mixed = (mixed ^ rows[:, k].view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
    _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), np.int64)
    for k, row in enumerate(rows[first].tolist()):
        key = tuple(row)
        number = known.get(key)
        if number is None:
            number = known[key] = len(known)
        numbers[k] = number
    return numbers[inverse]


class DocumentPaths:
    """States, predicates and edges by content; the arrays of the kernel are made when asked."""

    def __init__(self, sources: int) -> None:
        self._states: dict[tuple[int, ...], int] = {(-1, k, -1, -1): k for k in range(sources)}
        self._predicates: dict[tuple[int, ...], int] = {}
        self._sets: dict[tuple[int, ...], int] = {(-1, -1): 0}
        self._edges: dict[tuple[int, ...], int] = {}
        #: Names whose nodes need their values: those of leaves that are joined or tested.
        self.valued: set[int] = set()
        #: Whether a value is compared with a number.
        self.asks_numbers = False
        self._signs = EdgeSigns()
        self._made: dict[str, np.ndarray] | None = None
        self._sizes = (0, 0, 0, 0)

    # ---- members ----

    def states(
        self, block: Block, source: int, kept: set[int], constants: Constants
    ) -> dict[int, Words]:
        """The state of each kept node, and of those above, for each member."""
        count = constants.count
        on_the_way = {n for number in kept for n in block.path(number)}
        found: dict[int, Words] = {}
        for number in sorted(on_the_way):
            node = block.nodes[number]
            above = found[node.parent] if node.parent >= 0 else np.full(count, source, np.int64)
            asked = self._asked(block, number, on_the_way, constants)
            columns = [above, _all(int(node.axis)), self._name(node, constants), asked]
            found[number] = interned(self._states, columns, count)
        return found

    def _name(self, node: PatternNode, constants: Constants) -> Words:
        return _all(kernel.ANY) if node.name is None else constants.words(constant_of(node.name))

    def _asked(
        self, block: Block, number: int, on_the_way: set[int], constants: Constants
    ) -> Words:
        """What is asked of a node besides what lies on the way: a set of predicates."""
        count = constants.count
        node = block.nodes[number]
        asked = np.zeros(count, np.int64)
        tested = [self._test(node, k, constants) for k in range(len(node.tests))]
        below = [
            self._path(block, child, constants)
            for child, other in enumerate(block.nodes)
            if other.parent == number and child not in on_the_way
        ]
        for predicate in (*tested, *below):
            asked = interned(self._sets, [asked, predicate], count)
        return asked

    def _test(self, node: PatternNode, number: int, constants: Constants) -> Words:
        test = node.tests[number]
        is_text = kind_of(test.constant.type) is Kind.STRING
        kind = kernel.TEXT if is_text else kernel.NUMBER
        words = constants.words(constant_of(test.constant))
        self.asks_numbers |= not is_text
        self.need_values(self._name(node, constants))
        operator = _all(OPERATORS.index(test.operator))
        columns = [_all(kernel.SELF), _all(-1), operator, _all(kind), words, _all(0)]
        return interned(self._predicates, columns, constants.count)

    def _path(self, block: Block, number: int, constants: Constants) -> Words:
        """The predicate that a node exists, with all that is asked of it."""
        node = block.nodes[number]
        asked = self._asked(block, number, set(), constants)
        columns = [_all(int(node.axis)), self._name(node, constants), _all(0), _all(0), _all(0)]
        return interned(self._predicates, [*columns, asked], constants.count)

    def need_values(self, names: Words) -> None:
        self.valued.update(np.unique(names).tolist())

    def edges(self, states: Words, mask: int, count: int) -> Words:
        """The edge of each member: a leaf, and which of the nodes above it are kept."""
        return interned(self._edges, [states, _all(mask)], count)

    # ---- the automaton ----

    @property
    def edge_count(self) -> int:
        return len(self._edges)

    @property
    def state_count(self) -> int:
        return len(self._states)

    @property
    def predicate_count(self) -> int:
        return len(self._predicates)

    def made(self) -> dict[str, np.ndarray]:
        """The arrays of the automaton, by their names in the frame."""
        sizes = (len(self._states), len(self._predicates), len(self._sets), len(self._edges))
        if self._made is None or sizes != self._sizes:
            self._made, self._sizes = self._make(), sizes
        return self._made

    def _make(self) -> dict[str, np.ndarray]:
        sets = self._spelled_sets()
        count = len(self._states)
        states = np.zeros(count, PathState.dtype)
        states["parent"] = states["alike"] = states["first_edge"] = -1
        asks: list[int] = []
        heads: dict[tuple[int, ...], int] = {}
        for (above, way, name, asked), number in self._states.items():
            if above >= 0:
                own = sets[asked]
                key = (above, way, name, own[0] if own else -1)
                begin, alike = len(asks), heads.get(key, -1)
                heads[key] = number
                states["axes"][above] |= 1 << way
                asks += own
                states[number] = above, way, alike, begin, len(asks), states["axes"][number], -1
        edges = np.zeros(len(self._edges), Edge.dtype)
        for (state, mask), number in self._edges.items():
            edges[number] = states["first_edge"][state], mask
            states["first_edge"][state] = number
        return {
            "states": states,
            "asks": np.array(asks, np.int64),
            "moves": _table(heads),
            "edges": edges,
            **self._spelled_predicates(sets),
        }

    def _spelled_sets(self) -> list[list[int]]:
        spelled: list[list[int]] = [[]]
        for (before, predicate), number in self._sets.items():
            if number:
                spelled.append([*spelled[before], predicate])
        return spelled

    def _spelled_predicates(self, sets: list[list[int]]) -> dict[str, np.ndarray]:
        predicates = np.zeros(len(self._predicates), Predicate.dtype)
        parts: list[int] = []
        names: dict[tuple[int, ...], int] = {}
        values: dict[tuple[int, ...], int] = {}
        others: list[int] = []
        for (axis, name, operator, kind, constant, asked), number in self._predicates.items():
            begin = len(parts)
            parts += sets[asked]
            own = (axis, name, operator, kind, constant, begin, len(parts), -1)
            predicates[number] = own
            if axis != kernel.SELF:
                heads, key = names, (name, 0, 0, 0)
            elif operator == kernel.EQUAL and kind == kernel.TEXT:
                heads, key = values, (constant, 0, 0, 0)
            else:
                others.append(number)
                continue
            predicates["next"][number] = heads.get(key, -1)
            heads[key] = number
        return {
            "predicates": predicates,
            "parts": np.array(parts, np.int64),
            "by_name": _table(names),
            "by_text": _table(values),
            "others": np.array(others, np.int64),
        }

    def signatures(self, strings: Strings) -> Words:
        """Two words of content for each edge, whatever its number is."""
        signs = self._signs
        if len(signs.edges) < len(self._edges):
            signs.add(
                self._predicates, self._spelled_sets(), self._states, self._edges, Texts(strings)
            )
        return np.frombuffer(b"".join(signs.edges), np.int64).reshape(-1, 2).copy()

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.made().values())


def _all(value: int) -> Words:
    return np.array([value], np.int64)


def empty_table(room: int) -> np.ndarray:
    """A table of keys without any, with room for so many."""
    table = np.zeros(room, Entry.dtype)
    table["number"] = -1
    return table


def fill_table(table: np.ndarray, entries: np.ndarray) -> None:
    """Add entries to a table that has room for them."""
    frame = filled(KeyTable, entries=table)
    fill(KeyTable.at(frame), Entry.at(entries), len(entries))


def _table(known: dict[tuple[int, ...], int]) -> np.ndarray:
    room = 8
    while room < 2 * len(known) + 2:
        room *= 2
    table = empty_table(room)
    if known:
        entries = [(*key, number) for key, number in known.items()]
        fill_table(table, np.array(entries, Entry.dtype))
    return table
