"""Queries over documents: all of them over the same streams, in two stages.

First the documents of a batch are read and the blocks of all queries are matched at once, which gives
witnesses. Then their values are joined with those of the documents before them, template by template.
A query that is born later shares everything: that a result is not older than the query is told by
where it starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.documents import Block, Documents, document_id
from braid.algebra.expressions import Expression, Literal
from braid.documents.xml_table import DocumentTable, Unreadable
from braid.jit.records import filled
from braid.operators.core import checks
from braid.operators.core.base import Context, Held, State
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin
from braid.operators.core.nodes import Nodes, signatures
from braid.operators.core.roles import ReadsTexts, Unread
from braid.operators.core.values import Words
from braid.operators.documents.batches import Matcher
from braid.operators.documents.budget import DocumentBudget
from braid.operators.documents.edge_digests import renumbered
from braid.operators.documents.join_rows import Arrived, DocumentRows, arrived, merged, spans
from braid.operators.documents.kernels.join import join
from braid.operators.documents.kernels.records import Fact, JoinFrame, Results
from braid.operators.documents.output import DocumentOutput
from braid.operators.documents.paths import DocumentPaths
from braid.operators.documents.queries import DocumentQueries
from braid.operators.documents.retention import DocumentUpkeep
from braid.operators.documents.spec import (
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
from braid.operators.documents.stages import View
from braid.operators.documents.store import END, ID, SOURCE, START, TEXT, DocumentStore
from braid.operators.documents.value_order import DocumentOrder
from braid.plan import layout
from braid.plan.predicates import Constant

_HELD = layout.Layout(("value",))
_ENDLESS = 2**61
#: Room for so many results is made before results are handed on in pieces.
_MUCH = 1 << 17
#: So many documents are joined before their values are sorted.
_PIECE = 256


class DocumentsLogic(ReadsTexts):
    """One m-op for all queries over the documents of some streams."""

    takes_sets = False
    takes_bits = False
    saves = True

    def __init__(self, spec: DocumentsSpec, context: Context) -> None:
        self._spec = spec
        self._budget = DocumentBudget(context.instance_budget)
        #: Nodes that remembered too much, and since when.
        self.stopped: dict[int, int] = {}
        self._strings = context.values.strings
        self._share = context.share
        self._reader = context.documents
        #: Texts of the last batches that are no documents, until somebody takes them.
        self.unread: list[Unread] = []
        self.nodes = Nodes()
        self._paths = DocumentPaths(len(spec.inputs))
        self._queries = DocumentQueries()
        self._matcher = Matcher(self._paths, self._strings)
        self._upkeep = DocumentUpkeep(self._strings)
        self._room = 1 << 14
        has_rows = spec.columns[0] is None
        width = spec.inputs[0].layout.width - spec.inputs[0].layout.base - 1 if has_rows else 0
        #: The rows of the join before, if this is not the first.
        self._rows = DocumentRows(width) if has_rows else None
        self._store = DocumentStore(spec.views)
        self._output = DocumentOutput(self._strings, self._reader)
        self._order = DocumentOrder()

    # ---- members ----

    def admit(
        self, recipe: DocumentsRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        view = recipe.view
        content = [w for c in _constants(view) for w in constants.content(c)]
        before = origins[0] if self._rows is not None else None
        if before is not None:
            content += list(before.signatures.T.copy())
        what = (_bare(recipe.query), recipe.sources, tuple(sorted(recipe.wanted)))
        wanted = signatures((what, recipe.bound, recipe.handed), constants.count, content)
        numbers, fresh = self.nodes.add(wanted)
        if len(fresh):
            own = constants.chosen(fresh)
            self._upkeep.need(recipe, numbers[fresh])
            known = before and Origin(before.numbers[fresh], before.signatures[fresh])
            for plan in plans_of(recipe, self._spec.in_order):
                self._take(recipe, plan, own, numbers[fresh], known)
        return Origin(numbers, wanted)

    def _take(
        self,
        recipe: DocumentsRecipe,
        plan: DocumentPlan,
        constants: Constants,
        nodes: Words,
        before: Origin | None,
    ) -> None:
        view, count = recipe.view, len(nodes)
        states = [
            {} if side.number < 0 else self._paths.states(side.block, source, kept, constants)
            for side, source in zip(view.sides, recipe.sources, strict=True)
            for kept in [kept_nodes(side.block, set(side.needed))]
        ]
        labels = np.full((count, 2 * len(plan.steps)), -1, np.int64)
        for number, step in enumerate(plan.steps):
            for side, leaf in enumerate((step.left, step.right)):
                if leaf is None:
                    continue
                if view.sides[leaf.block].number < 0:
                    assert before is not None
                    assert self._rows is not None
                    edges = self._rows.ask(before.numbers, before.signatures, leaf.chain[0])
                else:
                    edges = self._edges(view.sides[leaf.block].block, leaf, states, count)
                    self._note_values(view, step, leaf, constants)
                labels[:, 2 * number + side] = edges
        if not keeps_documents(recipe):
            for block, node in shown_leaves(recipe):
                self._need_values(view, block, node, constants)
        windows = np.full(count, _ENDLESS, np.int64)
        if view.window is not None:
            windows[:] = constants.words(constant_of(view.window))
        self._note_names(view, constants)
        self._queries.add(self._queries.template(plan.template), labels, nodes, windows)

    def _edges(self, block: Block, leaf: Leaf, states: list[dict[int, Words]], count: int) -> Words:
        path = block.path(leaf.chain[0])
        mask = sum(1 << path.index(node) for node in leaf.chain)
        return self._paths.edges(states[leaf.block][leaf.chain[0]], mask, count)

    def _note_values(self, view: View, step: Step, leaf: Leaf, constants: Constants) -> None:
        if step.left is not None and step.right is not None:
            self._need_values(view, leaf.block, leaf.chain[0], constants)

    def _need_values(self, view: View, block: int, node: int, constants: Constants) -> None:
        name = view.sides[block].block.nodes[node].name
        any_name = np.array([-2], np.int64)
        self._paths.need_values(any_name if name is None else constants.words(constant_of(name)))

    def _note_names(self, view: View, constants: Constants) -> None:
        names = [n.name for side in view.sides for n in side.block.nodes if n.name is not None]
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
        for node in gone.tolist():
            self.stopped.pop(node, None)
        return gone

    def _stop(self, over: Mapping[int, int]) -> None:
        """Queries that remember too much look for nothing from now on."""
        if over:
            self._queries.remove(np.array(list(over), np.int64))
            self.stopped |= over

    # ---- documents ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> dict[str, Batch]:
        about, groups, came = self._about(inputs)
        output: dict[str, Batch] = {}
        if len(about):
            first = self._store.count
            self._note_unread(about, self._remember(about, groups, came))
            found = self._joined()
            output = self._output.batches(found, self._queries, self._store, self._rows)
            self._upkeep.drop(self._store.about[first : self._store.count])
            self._stop(self._budget.over(self._store, self._queries))
        longest = self._queries.longest if self._queries.has_joins else -1
        before = self._store.count
        self._store.expire(longest, bound)
        if self._rows is not None:
            self._rows.drop(before - self._store.count)
        if self._store.count < before:
            self._order.forget()
            self._sort()
        return output

    def _sort(self) -> None:
        """Keep the values in order that queries compare so, of documents that have been joined."""
        if self._queries.has_ordered:
            if not len(self._store.kinds):  # codes have changed
                self._store.order_values(self._strings)
            self._order.update(self._store, self._queries.ordered_edges(), self._strings)

    def _about(self, inputs: Sequence[Batch]) -> tuple[Words, Words, Arrived | None]:
        """The documents of a batch in order of time; of each its group of rows, if it has some."""
        parts, groups, came = [], [], None
        for source, (batch, shape) in enumerate(zip(inputs, self._spec.inputs, strict=True)):
            columns = self._spec.columns[source]
            if columns is None:
                came = arrived(batch, shape.layout)
                starts, ends = spans(batch, came)
                about = np.full((len(starts), 5), -1, np.int64)
                about[:, START], about[:, END], about[:, SOURCE] = starts, ends, source
                groups.append(np.arange(len(starts)))
            else:
                about = self._texts_of(batch, source, *columns)
                groups.append(np.full(len(about), -1, np.int64))
            parts.append(about)
        together = np.concatenate(parts)
        order = np.argsort(together[:, END], kind="stable")
        return together[order], np.concatenate(groups)[order], came

    def _texts_of(self, batch: Batch, source: int, column: str, id_column: str | None) -> Words:
        """The documents of a stream."""
        shape, rows = self._spec.inputs[source], batch.alone()
        known = (rows[:, layout.MASK] >> shape.layout.column(column)) & 1 == 0
        rows = rows[known]
        about = np.empty((len(rows), 5), np.int64)
        about[:, START], about[:, END] = rows[:, layout.START], rows[:, layout.END]
        about[:, SOURCE] = source
        about[:, TEXT] = rows[:, shape.layout.word(column)]
        about[:, ID] = self._ids(rows, about, source, id_column)
        return about

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

    def _remember(self, about: Words, groups: Words, came: Arrived | None) -> dict[int, str]:
        """Keep documents; why some of them could not be read, by their place."""
        tables: list[DocumentTable | None] = [None] * len(about)
        unread: dict[int, str] = {}
        real = np.flatnonzero(groups < 0)
        texts = self._strings.array(about[real, TEXT], None).to_pylist()
        for place, text in zip(real.tolist(), texts, strict=True):
            try:
                tables[place] = self._reader.work_on(text)
            except Unreadable as error:
                unread[place] = str(error)
        found = self._matcher.witnesses(tables, about[:, SOURCE].copy())
        if self._rows is not None:
            assert came is not None
            places = np.flatnonzero(groups >= 0)
            document_of = np.zeros(len(places), np.int64)
            document_of[groups[places]] = places
            found = merged(found, self._rows.add(came, document_of, len(about)))
        first = self._store.row_count
        self._store.add(about, found)
        if self._spec.divided:
            self._store.leave_to_others(first, self._strings, self._share)
        if self._queries.compares:
            self._store.order_values(self._strings)
        return unread

    def _note_unread(self, about: Words, unread: Mapping[int, str]) -> None:
        """What a stream publishes, or holds in a column of plain text, need not be a document."""
        places = list(unread)
        texts = self._strings.array(about[places, TEXT], None).to_pylist() if places else []
        for text, (place, reason) in zip(texts, unread.items(), strict=True):
            source = int(about[place, SOURCE])
            column = self._spec.columns[source]
            assert column is not None
            start, end = int(about[place, START]), int(about[place, END])
            channel = self._spec.names[source]
            self.unread.append(Unread(channel, column[0], start, end, text, reason))

    def _joined(self) -> Results:
        """All results of the documents that were not joined yet.

        Where values are kept in order a few documents are joined at a time: what has been sorted
        need not be gone through.
        """
        store, queries = self._store, self._queries
        made, width = queries.made(), 3 + queries.slots
        parts: list[tuple[Words, Words]] = []
        total = 0
        most = _PIECE if queries.has_ordered else store.count
        while True:
            begun = int(store.progress[0])
            end = min(store.count, begun + most)
            rows = np.empty((self._room, width), np.int64)
            pairs = np.empty((2 * self._room, 2), np.int64)
            known = {**store.fields(), **made, **queries.routes, **self._order.made()}
            asked = {**self._room_for_facts(), "stop": end, "by_views": self._spec.views}
            frame = filled(
                JoinFrame, **known, **asked, results=rows.reshape(-1), result_width=width,
                result_room=len(rows), pairs=pairs, string_offsets=self._strings.offsets,
                string_bytes=self._strings.pool, longest_window=max(0, queries.longest),
                with_itself=queries.is_near,
            )  # fmt: skip
            done = join(JoinFrame.at(frame))
            count, own = int(frame["result_count"][0]), int(frame["pair_count"][0])
            pairs[:own, 0] += total
            parts.append((rows[:count], pairs[:own]))
            total += count
            if done:
                self._sort()
            if done and end == store.count:
                return Results(*_together(parts))
            if not done and (store.progress[0] == begun or self._room < _MUCH):
                self._room *= 2  # above much, only if not even one document's results have room

    def _room_for_facts(self) -> dict[str, np.ndarray]:
        count = self._store.count
        return {
            "facts": np.empty(self._room, Fact.dtype),
            "heads": np.full(count + 1, -1, np.int64),
            "touched": np.zeros(count + 1, np.int64),
        }

    # ---- state ----

    def snapshot(self) -> State:
        """Documents with their witnesses; edges by what they are, since their numbers may differ.

        With rows of the join before, only texts and rows: their witnesses are found again.
        """
        if self._rows is None:
            state = {**self._store.saved(), "edges": self._paths.signatures(self._strings)}
        else:
            state = {"about": self._store.about[: self._store.count].copy()}
            state |= self._rows.saved(self._store.fields(), self._store.count)
        times = [(at, self._budget.most) for at in self.stopped.values()]
        stops = np.array(times, np.int64).reshape(-1, 2)
        known = self.nodes.signatures[list(self.stopped)]
        return state | {"stopped": np.concatenate([known, stops], axis=1)}

    def restore(self, state: State) -> None:
        """With a larger budget a query that was stopped goes on from now."""
        stops = state["stopped"].reshape(-1, 4)
        found = self.nodes.find(np.ascontiguousarray(stops[:, :2])).tolist()
        times = zip(found, stops[:, 2:].tolist(), strict=True)
        self._stop({n: at for n, (at, most) in times if n >= 0 and self._budget.most <= most})
        self._store = DocumentStore(self._spec.views)
        self._order.forget()
        about = checks.table(state, "about", 5)
        checks.within(about[:, SOURCE], 0, len(self._spec.inputs), "streams of documents")
        checks.within(about[:, TEXT : ID + 1], -1, self._strings.count, "texts of documents")
        if self._rows is None:
            own = self._paths.signatures(self._strings)
            edges = renumbered(checks.table(state, "edges", 2), own)
            self._store.load(state, edges, self._strings.count)
            if self._queries.compares:
                self._store.order_values(self._strings)
            self._sort()
            return
        groups = np.full(len(about), -1, np.int64)
        came = self._rows.came_before(state)
        places = np.flatnonzero(about[:, SOURCE] == 0)
        groups[places] = np.arange(len(places))
        self._rows = self._rows.emptied()
        self._remember(about.copy(), groups, came)
        self._store.progress[:] = self._store.count, self._store.count, 0
        self._store.index_anew()

    def held(self) -> Held | None:
        codes = np.concatenate([part[known] for part, known in self._codes()])
        rows = np.zeros((len(codes), _HELD.width), np.int64)
        rows[:, _HELD.base] = codes
        return Held(rows, _HELD, (pa.string(),)) if len(codes) else None

    def _codes(self) -> Iterator[tuple[Words, np.ndarray]]:
        """Everything that holds codes of strings, and where they are in it."""
        store = self._store
        parts = [store.rows[: store.row_count, 2], store.about[: store.count, TEXT : ID + 1]]
        if self._rows is not None:
            parts.append(self._rows.values[: self._rows.count])
        return ((part, part >= 0) for part in parts)

    def replace_held(self, rows: Rows) -> None:
        codes, begin = rows[:, _HELD.base], 0
        for part, known in self._codes():
            count = int(np.count_nonzero(known))
            part[known] = codes[begin : begin + count]
            begin += count
        self._store.index_anew()
        self._order.recode(self._store)

    def forget_codes(self) -> None:
        self._store.forget_orders()

    @property
    def instances(self) -> int:
        return self._store.count

    @property
    def state_bytes(self) -> int:
        return (
            self._store.nbytes
            + self._order.nbytes
            + (0 if self._rows is None else self._rows.nbytes)
        )

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


def _constants(view: View) -> Iterator[Constant]:
    """The names, values and the window of the documents that a join reads."""
    for side in view.sides:
        for node in side.block.nodes:
            if node.name is not None:
                yield constant_of(node.name)
            yield from (constant_of(test.constant) for test in node.tests)
    if view.window is not None:
        yield constant_of(view.window)


def _bare(query: Documents) -> Documents:
    """A query without its constants and streams: what its members have in common."""
    return replace(query.changed(_nothing), sources=query.sources)


def _nothing(expression: Expression) -> Expression:
    return Literal(None, expression.type)
