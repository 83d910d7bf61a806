"""Queries over documents: all of them over the same streams, in two stages.

First the documents of a batch are read and the blocks of all queries are matched at once, which gives
witnesses. Then their values are joined with those of the documents before them, template by template.
A query that is born later shares everything: that a result is not older than the query is told by
where it starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.documents import Documents, document_id
from braid.algebra.expressions import Expression, Literal
from braid.kernels.documents_join import join
from braid.kernels.documents_state import Found, Work
from braid.mops.base import Context, Held, State
from braid.mops.batch import Batch
from braid.mops.columns import Rows
from braid.mops.constants import Constants
from braid.mops.document_batches import Matcher
from braid.mops.document_output import DocumentOutput
from braid.mops.document_paths import DocumentPaths
from braid.mops.document_queries import DocumentQueries
from braid.mops.document_reader import document_of
from braid.mops.document_signs import renumbered
from braid.mops.document_store import END, ID, SOURCE, START, TEXT, DocumentStore
from braid.mops.document_table import DocumentTable, Unreadable
from braid.mops.document_upkeep import DocumentUpkeep
from braid.mops.membership import Origin
from braid.mops.nodes import Nodes, signatures
from braid.mops.values import Words
from braid.plan import layout
from braid.plan.documents import (
    DocumentPlan,
    DocumentsRecipe,
    DocumentsSpec,
    Leaf,
    Step,
    constant_of,
    keeps_documents,
    kept_nodes,
    plans_of,
    shown_leaves,
)

_HELD = layout.Layout(("value",))
_ENDLESS = 2**61
#: Room for so many results is made before results are handed on in pieces.
_MUCH = 1 << 17


class DocumentsLogic:
    """One m-op for all queries over the documents of some streams."""

    takes_sets = False
    takes_bits = False
    saves = True
    stopped: Mapping[int, int] = {}

    def __init__(self, spec: DocumentsSpec, context: Context) -> None:
        self._spec = spec
        self._strings = context.values.strings
        self._share = context.share
        self.nodes = Nodes()
        self._paths = DocumentPaths(len(spec.inputs))
        self._queries = DocumentQueries()
        self._store = DocumentStore(spec.views)
        self._matcher = Matcher(self._paths, self._strings)
        self._output = DocumentOutput(self._strings)
        self._upkeep = DocumentUpkeep(self._strings)
        self._room = 1 << 14

    # ---- members ----

    def admit(
        self, recipe: DocumentsRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        query = recipe.query
        content = [w for c in query.constants() for w in constants.content(constant_of(c))]
        what = (_bare(query), recipe.sources, tuple(sorted(recipe.wanted)))
        wanted = signatures(what, constants.count, content)
        numbers, fresh = self.nodes.add(wanted)
        if len(fresh):
            own = constants.chosen(fresh)
            self._upkeep.need(recipe, numbers[fresh])
            for plan in plans_of(recipe):
                self._take(recipe, plan, own, numbers[fresh])
        return Origin(numbers, wanted)

    def _take(
        self, recipe: DocumentsRecipe, plan: DocumentPlan, constants: Constants, nodes: Words
    ) -> None:
        query, count = recipe.query, len(nodes)
        states = [
            self._paths.states(block, recipe.sources[number], _kept(query, number), constants)
            for number, block in enumerate(query.blocks)
        ]
        labels = np.full((count, 2 * len(plan.steps)), -1, np.int64)
        for number, step in enumerate(plan.steps):
            for side, leaf in enumerate((step.left, step.right)):
                if leaf is not None:
                    labels[:, 2 * number + side] = self._edges(query, leaf, states, count)
                    self._note_values(query, step, leaf, constants)
        if not keeps_documents(recipe):
            for block, node in shown_leaves(recipe):
                self._need_values(query, block, node, constants)
        windows = np.full(count, _ENDLESS, np.int64)
        if query.window is not None:
            windows[:] = constants.words(constant_of(query.window))
        self._note_names(query, constants)
        self._queries.add(self._queries.template(plan.template), labels, nodes, windows)

    def _edges(
        self, query: Documents, leaf: Leaf, states: list[dict[int, Words]], count: int
    ) -> Words:
        path = query.blocks[leaf.block].path(leaf.chain[0])
        mask = sum(1 << path.index(node) for node in leaf.chain)
        return self._paths.edges(states[leaf.block][leaf.chain[0]], mask, count)

    def _note_values(self, query: Documents, step: Step, leaf: Leaf, constants: Constants) -> None:
        if step.left is not None and step.right is not None:
            self._need_values(query, leaf.block, leaf.chain[0], constants)

    def _need_values(self, query: Documents, block: int, node: int, constants: Constants) -> None:
        name = query.blocks[block].nodes[node].name
        any_name = np.array([-2], np.int64)
        self._paths.need_values(any_name if name is None else constants.words(constant_of(name)))

    def _note_names(self, query: Documents, constants: Constants) -> None:
        names = [n.name for block in query.blocks for n in block.nodes if n.name is not None]
        if names:
            codes = np.unique(np.concatenate([constants.words(constant_of(n)) for n in names]))
            texts = self._strings.array(codes, None).to_pylist()
            self._matcher.names.update(zip(texts, codes.tolist(), strict=True))

    def dismiss(self, numbers: Words) -> Words:
        gone = self.nodes.release(numbers)
        if len(gone):
            self._queries.remove(gone)
            self._upkeep.release(gone)
            self._upkeep.drop(self._store.about[: self._store.count])
        return gone

    # ---- documents ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> dict[str, Batch]:
        about = self._about(inputs)
        output: dict[str, Batch] = {}
        if len(about):
            first = self._store.count
            self._remember(about)
            found = self._joined()
            output = self._output.batches(found, self._queries, self._store)
            self._upkeep.drop(self._store.about[first : self._store.count])
        longest = self._queries.longest if self._queries.has_joins else -1
        self._store.expire(longest, bound)
        return output

    def _about(self, inputs: Sequence[Batch]) -> Words:
        """The documents of a batch in order of time."""
        parts = []
        for source, (batch, shape) in enumerate(zip(inputs, self._spec.inputs, strict=True)):
            rows = batch.alone()
            column, id_column = self._spec.columns[source]
            known = (rows[:, layout.MASK] >> shape.layout.column(column)) & 1 == 0
            rows = rows[known]
            about = np.empty((len(rows), 5), np.int64)
            about[:, START], about[:, END] = rows[:, layout.START], rows[:, layout.END]
            about[:, SOURCE] = source
            about[:, TEXT] = rows[:, shape.layout.word(column)]
            about[:, ID] = self._ids(rows, about, source, id_column)
            parts.append(about)
        together = np.concatenate(parts)
        return together[np.argsort(together[:, END], kind="stable")]

    def _ids(self, rows: Rows, about: Words, source: int, column: str | None) -> Words:
        """What documents are known by: the column `id` of their stream, else content and time."""
        if not self._upkeep.shows_ids(source):
            return np.full(len(rows), self._upkeep.nothing, np.int64)
        texts = self._strings.array(about[:, TEXT], None).to_pylist()
        ends = about[:, END].tolist()
        names = [document_id(t, end) for t, end in zip(texts, ends, strict=True)]
        if column is not None and len(rows):
            shape = self._spec.inputs[source]
            place, type_ = shape.layout.column(column), shape.schema.type_of(column)
            words = rows[:, shape.layout.word(column)]
            null = (rows[:, layout.MASK] >> place) & 1 != 0
            if pa.types.is_string(type_):
                given = self._strings.array(words, null).to_pylist()
            else:
                given = [None if n else str(w) for w, n in zip(words.tolist(), null, strict=True)]
            names = [n if g is None else g for g, n in zip(given, names, strict=True)]
        return self._strings.codes(pa.array(names, pa.string()))

    def _remember(self, about: Words) -> None:
        texts = self._strings.array(about[:, TEXT], None).to_pylist()
        found = self._matcher.witnesses([_read(text) for text in texts], about[:, SOURCE].copy())
        first = self._store.row_count
        self._store.add(about, found)
        if self._spec.divided:
            self._store.leave_to_others(first, self._strings, self._share)
        if self._queries.compares:
            self._store.order_values(self._strings)

    def _joined(self) -> Found:
        """All results of the documents that were not joined yet."""
        store, queries = self._store, self._queries
        made, strings = queries.made(), self._strings
        width = 3 + queries.slots
        parts: list[tuple[Words, Words]] = []
        total = 0
        while True:
            begun = int(store.progress[0])
            found = Found(
                np.empty((self._room, width), np.int64), np.empty((2 * self._room, 2), np.int64),
                np.zeros(2, np.int64),
            )  # fmt: skip
            done = join(
                made, queries.ways, store.arrays(), strings.offsets, strings.pool, self._work(), found,
                store.progress, store.count, queries.longest, queries.is_near, self._spec.views,
            )  # fmt: skip
            count, own = found.counts.tolist()
            found.pairs[:own, 0] += total
            parts.append((found.rows[:count], found.pairs[:own]))
            total += count
            if done:
                rows, pairs = _together(parts)
                return Found(rows, pairs, np.array([len(rows), len(pairs)], np.int64))
            if store.progress[0] == begun or self._room < _MUCH:
                self._room *= 2  # above much, only if not even one document's results have room

    def _work(self) -> Work:
        count = self._store.count
        return Work(
            np.empty((self._room, 6), np.int64), np.full(count + 1, -1, np.int64),
            np.zeros(count + 1, np.int64), np.zeros(2, np.int64), np.zeros(130, np.int64),
            np.zeros(130, np.int64), np.full(130, -1, np.int64), np.full(130, -1, np.int64),
        )  # fmt: skip

    # ---- state ----

    def snapshot(self) -> State:
        """Documents with their witnesses; edges by what they are, since their numbers may differ."""
        return {**self._store.saved(), "edges": self._paths.signatures(self._strings)}

    def restore(self, state: State) -> None:
        self._store = DocumentStore(self._spec.views)
        own = self._paths.signatures(self._strings)
        self._store.load(state, renumbered(state["edges"].reshape(-1, 2), own))
        if self._queries.compares:
            self._store.order_values(self._strings)

    def held(self) -> Held | None:
        store = self._store
        values = store.rows[: store.row_count, 2]
        texts = store.about[: store.count, [TEXT, ID]].ravel()
        codes = np.concatenate([values[values >= 0], texts])
        rows = np.zeros((len(codes), _HELD.width), np.int64)
        rows[:, _HELD.base] = codes
        return Held(rows, _HELD, (pa.string(),)) if len(codes) else None

    def replace_held(self, rows: Rows) -> None:
        store = self._store
        codes = rows[:, _HELD.base]
        known = np.flatnonzero(store.rows[: store.row_count, 2] >= 0)
        store.rows[known, 2] = codes[: len(known)]
        store.about[: store.count, [TEXT, ID]] = codes[len(known) :].reshape(-1, 2)
        store.index_anew()

    def forget_codes(self) -> None:
        self._store.forget_orders()

    @property
    def instances(self) -> int:
        return self._store.count

    @property
    def state_bytes(self) -> int:
        return self._store.nbytes

    @property
    def index_bytes(self) -> int:
        return self._paths.nbytes + self._queries.nbytes + self.nodes.nbytes

    def describe(self) -> dict[str, Any]:
        return {
            "queries": self.nodes.count,
            "templates": len(self._queries.templates),
            "states": self._paths.state_count,
            "predicates": self._paths.predicate_count,
            "edges": self._paths.edge_count,
            "documents": self._store.count,
            "witnesses": self._store.row_count,
            "ways": self._queries.way_count,
            "cache_hits": int(self._store.cache_counts[1]),
            "cache_misses": int(self._store.cache_counts[2]),
        }


def _together(parts: list[tuple[Words, Words]]) -> tuple[Words, Words]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([p for _, p in parts])


def _kept(query: Documents, number: int) -> set[int]:
    joined = {(j.first, j.second)[number] for j in query.joins} if query.kind else set()
    return kept_nodes(query.blocks[number], joined)


def _read(text: str) -> DocumentTable | None:
    try:
        return document_of(text)
    except Unreadable:
        return None


def _bare(query: Documents) -> Documents:
    """A query without its constants and streams: what its members have in common."""
    return replace(query.changed(_nothing), sources=query.sources)


def _nothing(expression: Expression) -> Expression:
    return Literal(None, expression.type)
