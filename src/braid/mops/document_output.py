"""From bindings to rows: ids of documents, values of variables, results as documents."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from braid.algebra.documents import is_xml
from braid.kernels import documents_state as kernel
from braid.mops.batch import Batch
from braid.mops.document_queries import DocumentQueries
from braid.mops.document_reader import document_of
from braid.mops.document_store import END, ID, START, TEXT, DocumentStore
from braid.mops.values import Strings, Words
from braid.plan import layout
from braid.plan.documents import Template
from braid.plan.layout import Layout

_NODES = np.int64(1 << 32)
#: What is shown of a document whose text is not held: queries that show it are younger than it is,
#: and have no result with it.
_FORGOTTEN = ""


class DocumentOutput:
    def __init__(self, strings: Strings) -> None:
        self._strings = strings

    def batches(
        self, found: kernel.Found, queries: DocumentQueries, store: DocumentStore
    ) -> dict[str, Batch]:
        """The channels of all widths; rows that nobody could tell apart are one."""
        output: dict[str, Batch] = {}
        template = queries.template_of(found.rows[:, 0])
        widths = np.array([t.width for t in queries.templates], np.int64)[template]
        kept = self._kept(found.rows, template, queries.templates)
        for width in np.unique(widths).tolist():
            chosen = np.flatnonzero((widths == width) & kept)
            places = np.full(len(widths), -1, np.int64)
            places[chosen] = np.arange(len(chosen))
            index = places[found.pairs[:, 0]]
            own = index >= 0
            rows = np.zeros((len(chosen), _layout(width).width), np.int64)
            for number in np.unique(template[chosen]).tolist():
                mine = np.flatnonzero(template[chosen] == number)
                self._fill(rows, mine, found.rows[chosen[mine]], queries.templates[number], store)
            members = found.pairs[own, 1].astype(np.int32)
            output[str(width)] = Batch(rows, index[own].astype(np.int32), members)
        return output

    def _kept(self, rows: Words, template: Words, templates: list[Template]) -> np.ndarray:
        """The first of those rows of a leaf of R_T that show the same."""
        kept = np.ones(len(rows), np.bool_)
        for number in np.unique(template).tolist():
            known = templates[number]
            if not known.distinct:
                continue
            mine = np.flatnonzero(template == number)
            columns = [0, 1, 2, *(3 + slot for slot in known.shown)]
            _, first = np.unique(rows[mine][:, columns], axis=0, return_index=True)
            kept[mine] = False
            kept[mine[first]] = True
        return kept

    def _fill(
        self, rows: Words, mine: Words, found: Words, template: Template, store: DocumentStore
    ) -> None:
        earlier, current = found[:, 1], found[:, 2]
        base = _layout(template.width).base
        starts = store.about[:, START]
        rows[mine, layout.START] = np.minimum(starts[earlier], starts[current])
        rows[mine, layout.END] = store.about[current, END]
        documents = [earlier if side == 0 else current for side in template.sides]
        for number, of in enumerate(documents):
            rows[mine, base + number] = store.about[of, ID]
        for number, slot in enumerate(template.values):
            if slot >= 0:
                of = documents[template.blocks[number]]
                rows[mine, base + 3 + number] = self._values(of, found[:, 3 + slot], store)
        if template.result:
            pairs = zip(documents, template.roots, strict=True)
            columns = [(of, found[:, 3 + slot]) for of, slot in pairs]
            rows[mine, base + 2] = self._results(columns, store)

    def _values(self, documents: Words, nodes: Words, store: DocumentStore) -> Words:
        """The codes of the string values of nodes."""
        codes = kernel.values_at(store.arrays(), documents, np.ascontiguousarray(nodes))
        missing = np.flatnonzero(codes < 0)
        if len(missing):
            known, inverse = np.unique(
                documents[missing] * _NODES + nodes[missing], return_inverse=True
            )
            texts = [_value(text, node) for text, node in self._texts(known, store)]
            codes[missing] = self._strings.codes(pa.array(texts, pa.string()))[inverse]
        return codes

    def _texts(self, known: Words, store: DocumentStore) -> list[tuple[str, int]]:
        texts = self._strings.array(store.about[known // _NODES, TEXT], None).to_pylist()
        return list(zip(texts, (known % _NODES).tolist(), strict=True))

    def _results(self, columns: list[tuple[Words, Words]], store: DocumentStore) -> Words:
        """The codes of results: what each block is about, below one root."""
        keys = [documents * _NODES + nodes for documents, nodes in columns]
        rows, inverse = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
        parts: list[list[str]] = []
        for column in range(len(columns)):
            known, places = np.unique(rows[:, column], return_inverse=True)
            shown = [_shown(text, node) for text, node in self._texts(known, store)]
            parts.append([shown[place] for place in places.tolist()])
        if len(parts) == 1:
            made = parts[0]
        else:
            made = list(map(together, *parts))
        return self._strings.codes(pa.array(made, pa.string()))[inverse.ravel()]


def _value(text: str, node: int) -> str:
    return document_of(text).value(node) if text else _FORGOTTEN


def _shown(text: str, node: int) -> str:
    return document_of(text).shown(node) if text else _FORGOTTEN


def together(first: str, second: str) -> str:
    """Two results as one document; beside JSON, what is XML is a text."""
    if is_xml(first) and is_xml(second):
        return f"<result>{first}{second}</result>"
    parts = [json.dumps(p, ensure_ascii=False) if is_xml(p) else p for p in (first, second)]
    return f'{{"result": [{", ".join(parts)}]}}'


def _layout(width: int) -> Layout:
    return Layout(tuple(str(number) for number in range(3 + width)))
