"""R_T: the queries of all templates, as rows of edges and a window (see `operators/documents/kernels/join.py`)."""

from __future__ import annotations

import numpy as np

from braid.jit.records import Words as WordPointer
from braid.jit.records import filled
from braid.operators.core.nodes import grown
from braid.operators.core.values import Words
from braid.operators.documents.kernels.records import (
    JoinFrame,
    KnownList,
    Label,
    Route,
    RouteCounts,
    RouteList,
    RouteQuery,
    TrieCounts,
)
from braid.operators.documents.kernels.routes import LONGEST, NOT_SEEN
from braid.operators.documents.kernels.state import add_queries
from braid.operators.documents.paths import empty_table, fill_table
from braid.operators.documents.spec import ALONE, EQUALS, NEAR, Template


class DocumentQueries:
    """Templates, the trie of their queries, and which node each query is."""

    def __init__(self) -> None:
        self.templates: list[Template] = []
        self._numbers: dict[Template, int] = {}
        self._rows = np.zeros((0, 7), np.int64)
        self._steps = np.zeros((0, 6), np.int64)
        self._slots = np.zeros(0, np.int64)
        self._trie = np.zeros((8, 6), np.int64)
        self._children, self._begins = _empty_tables()
        self._queries = np.zeros((8, 3), np.int64)
        self._counts = np.zeros(2, np.int64)
        self._added: list[tuple[int, Words, Words, Words]] = []
        self._dead = 0
        self._ordered: Words | None = None
        #: Routes, by their names in the frame.
        self.routes = _no_routes()

    # ---- templates ----

    def template(self, template: Template) -> int:
        known = self._numbers.get(template)
        if known is not None:
            return known
        number = self._numbers[template] = len(self.templates)
        self.templates.append(template)
        first = len(self._steps)
        slots = self._slots.tolist()
        steps = []
        for kind, operator, left, right in template.steps:
            begin = len(slots)
            slots += left
            middle = len(slots)
            slots += right
            steps.append((kind, operator, begin, middle, middle, len(slots)))
        own = np.array(steps, np.int64).reshape(-1, 6)
        self._steps = np.concatenate([self._steps, own])
        self._slots = np.array(slots, np.int64)
        root = int(self._counts[0])
        self._counts[0] += 1
        self._trie = grown(self._trie, root + 1)
        self._trie[root] = number, -1, -1, 0, -1, -1
        row = (
            template.pairing, template.slots, first, len(steps), root, template.ordered,
            int(template.beside),
        )  # fmt: skip
        self._rows = np.concatenate([self._rows, np.array([row], np.int64)])
        return number

    # ---- queries ----

    def add(self, template: int, labels: Words, nodes: Words, windows: Words) -> None:
        """Rows of R_T: edges of each step (left, right), the node of the query, its window."""
        self._added.append((template, labels, nodes.copy(), windows))
        if self.templates[template].ordered:
            self._ordered = None
        self._insert(template, labels, nodes, windows)

    def _insert(self, template: int, labels: Words, nodes: Words, windows: Words) -> None:
        self._forget_routes()
        count, steps = len(labels), labels.shape[1] // 2
        most = int(self._counts[0]) + count * steps
        self._trie = grown(self._trie, most + 1)
        self._queries = grown(self._queries, int(self._counts[1]) + count)
        if 2 * most >= len(self._children):
            self._rehash(most)
        frame = filled(JoinFrame, **self.made())
        rows = [np.ascontiguousarray(part) for part in (labels, nodes, windows)]
        add_queries(
            JoinFrame.at(frame), template, Label.at(rows[0]), WordPointer.at(rows[1]),
            WordPointer.at(rows[2]), count, TrieCounts.at(self._counts),
        )  # fmt: skip

    def _forget_routes(self) -> None:
        self.routes["known_lists"]["number"] = NOT_SEEN
        self.routes["route_counts"][:] = 0

    def _rehash(self, most: int) -> None:
        room = len(self._children)
        while room <= 4 * most:
            room *= 2
        self._children = _moved(self._children, room)
        self._begins = _moved(self._begins, 2 * room)

    def remove(self, nodes: Words) -> None:
        """Queries that nobody has any more are found by nothing."""
        self._forget_routes()
        count = int(self._counts[1])
        gone = np.isin(self._queries[:count, 0], nodes)
        self._queries[:count][gone, 1] = -1
        self._dead = int(np.count_nonzero(self._queries[:count, 1] < 0))
        for _, _, own, _ in self._added:
            own[np.isin(own, nodes)] = -1  # their numbers may be given again
        if 2 * self._dead > count > 1000:
            self._rebuild()

    def _rebuild(self) -> None:
        added, self._added = self._added, []
        templates, self.templates, self._numbers = self.templates, [], {}
        self._rows, self._steps = np.zeros((0, 7), np.int64), np.zeros((0, 6), np.int64)
        self._slots = np.zeros(0, np.int64)
        self._children, self._begins = _empty_tables()
        self._counts[:] = 0
        self._dead = 0
        for template, labels, nodes, windows in added:
            kept = nodes >= 0
            if kept.any():
                number = self.template(templates[template])
                self.add(number, labels[kept], nodes[kept], windows[kept])

    def remembered(self) -> Words:
        """Node, edge and window of all that queries look for in earlier documents."""
        parts = [np.zeros((0, 3), np.int64)]
        for template, labels, nodes, windows in self._added:
            if self.templates[template].pairing != ALONE:
                for column in range(0, labels.shape[1], 2):
                    edges = labels[:, column]
                    asked = (edges >= 0) & (nodes >= 0)
                    parts.append(np.stack([nodes, edges, windows], axis=1)[asked])
        return np.concatenate(parts)

    def ordered_edges(self) -> Words:
        """The leaves of earlier documents whose values are looked up in their order, each with the
        leaf that is equal beside it, or -1."""
        if self._ordered is None:
            parts = [np.zeros((0, 2), np.int64)]
            for template, labels, nodes, _ in self._added:
                known, own = self.templates[template], labels[nodes >= 0]
                if known.beside:
                    parts.append(own[:, [2, 0]])
                elif known.ordered:
                    parts.append(np.stack([own[:, 0], np.full(len(own), -1)], axis=1))
            self._ordered = np.unique(np.concatenate(parts), axis=0)
        return self._ordered

    # ---- for the kernels ----

    @property
    def count(self) -> int:
        return int(self._counts[1]) - self._dead

    @property
    def longest(self) -> int:
        """The longest window: what is older is of no use."""
        windows = self._queries[: self._counts[1], 1]
        return int(windows.max(initial=-1))

    @property
    def has_joins(self) -> bool:
        return any(t.pairing != ALONE for t in self.templates)

    @property
    def is_near(self) -> bool:
        return any(t.pairing == NEAR for t in self.templates)

    @property
    def has_ordered(self) -> bool:
        return any(t.ordered for t in self.templates)

    @property
    def compares(self) -> bool:
        return any(step[0] == 1 for t in self.templates for step in t.steps)

    @property
    def slots(self) -> int:
        return max((t.slots for t in self.templates), default=0)

    def template_of(self, leaves: Words) -> Words:
        return self._trie[leaves, 0]

    def made(self) -> dict[str, np.ndarray]:
        """The arrays of R_T, by their names in the frame."""
        alone = [k for k, t in enumerate(self.templates) if t.pairing == ALONE]
        scanning = [
            k
            for k, t in enumerate(self.templates)
            if t.pairing != ALONE and (not t.steps or t.steps[0][0] != EQUALS)
        ]
        return {
            "templates": self._rows,
            "steps": self._steps,
            "slots": self._slots,
            "trie": self._trie,
            "children": self._children,
            "begins": self._begins,
            "queries": self._queries,
            "alone": np.array(alone, np.int64),
            "scanning": np.array(scanning, np.int64),
        }

    @property
    def nbytes(self) -> int:
        arrays = (self._trie, self._children, self._begins, self._queries, self._steps)
        return sum(array.nbytes for array in arrays) + self._route_bytes

    @property
    def way_count(self) -> int:
        """How many lists of facts are known."""
        return int(self.routes["route_counts"]["lists"][0])

    @property
    def _route_bytes(self) -> int:
        names = ("route_lists", "labels", "routes", "route_steps", "route_queries")
        counts = self.routes["route_counts"].tolist()[0]
        used = (
            count * self.routes[name].itemsize for count, name in zip(counts, names, strict=True)
        )
        return self.routes["known_lists"].nbytes + sum(used)


def _no_routes() -> dict[str, np.ndarray]:
    """Room that costs nothing until it is used, except for the table."""
    known = np.zeros(2048, KnownList.dtype)
    known["number"] = NOT_SEEN
    return {
        "known_lists": known,
        "route_lists": np.empty(1024, RouteList.dtype),
        "labels": np.empty(1 << 14, Label.dtype),
        "routes": np.empty(1 << 15, Route.dtype),
        "route_steps": np.empty(1 << 17, np.int64),
        "route_queries": np.empty(1 << 18, RouteQuery.dtype),
        "order": np.zeros(LONGEST, np.int64),
        "route_counts": np.zeros(1, RouteCounts.dtype),
    }


def _empty_tables() -> tuple[np.ndarray, np.ndarray]:
    """Of children, and of what begins with an edge: a node may be noted there twice."""
    return empty_table(16), empty_table(32)


def _moved(table: np.ndarray, room: int) -> np.ndarray:
    bigger = empty_table(room)
    fill_table(bigger, table[table["number"] >= 0])
    return bigger
