"""From bindings to rows: ids of documents, values of variables, results as documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from braid.algebra.documents import is_xml
from braid.documents.reader import DocumentReader
from braid.documents.xml_table import Unreadable
from braid.errors import damaged
from braid.operators.core.batch import Batch
from braid.operators.core.values import Strings, Words
from braid.operators.documents.join_rows import DocumentRows
from braid.operators.documents.kernels.records import Results
from braid.operators.documents.queries import DocumentQueries
from braid.operators.documents.spec import CONTENT, NAME, NOTHING, OF_ROW, Column, Template
from braid.operators.documents.spec import TEXT as TEXT_OF
from braid.operators.documents.store import END, ID, START, TEXT, DocumentStore
from braid.plan import layout
from braid.plan.layout import Layout

_NODES = np.int64(1 << 32)
#: What is shown of a document whose text is not held: queries that show it are younger than it is,
#: and have no result with it.
_FORGOTTEN = ""


class DocumentOutput:
    def __init__(self, strings: Strings, reader: DocumentReader) -> None:
        self._strings = strings
        self._reader = reader

    def batches(
        self,
        found: Results,
        queries: DocumentQueries,
        store: DocumentStore,
        held: DocumentRows | None,
    ) -> dict[str, Batch]:
        """The channels of all widths; rows that nobody could tell apart are one."""
        output: dict[str, Batch] = {}
        template = queries.template_of(found.rows[:, 0])
        ports = {t.port: (t.width, t.partial) for t in queries.templates}
        numbers = {port: number for number, port in enumerate(ports)}
        of_template = np.array([numbers[t.port] for t in queries.templates], np.int64)
        channels = of_template[template]
        kept = self._kept(found.rows, template, queries.templates)
        for channel in np.unique(channels).tolist():
            port = list(ports)[channel]
            chosen = np.flatnonzero((channels == channel) & kept)
            places = np.full(len(channels), -1, np.int64)
            places[chosen] = np.arange(len(chosen))
            index = places[found.pairs[:, 0]]
            own = index >= 0
            rows = np.zeros((len(chosen), _layout(*ports[port]).width), np.int64)
            for number in np.unique(template[chosen]).tolist():
                mine = np.flatnonzero(template[chosen] == number)
                one = _Rows(found.rows[chosen[mine]], queries.templates[number], store, held)
                self._fill(rows, mine, one)
            members = found.pairs[own, 1].astype(np.int32)
            output[port] = Batch(rows, index[own].astype(np.int32), members)
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

    def _fill(self, rows: Words, mine: Words, one: _Rows) -> None:
        template, store = one.template, one.store
        base = _layout(template.width, template.partial).base
        earlier, current = one.found[:, 1], one.found[:, 2]
        starts = store.about[:, START]
        rows[mine, layout.START] = np.minimum(starts[earlier], starts[current])
        rows[mine, layout.END] = store.about[current, END]
        if template.partial:
            rows[mine, base] = mine[_groups(one)]
            base += 1
        else:
            for number, column in enumerate(template.names):
                rows[mine, base + number] = self._column(column, one)
            if template.parts:
                rows[mine, base + 2] = self._results(one)
            base += 3
        for number, column in enumerate(template.values):
            if column[0] != NOTHING:
                rows[mine, base + number] = self._column(column, one)

    def _column(self, column: Column, one: _Rows) -> Words:
        """The codes of one value that is put out."""
        what, side, place = column
        documents = one.documents(side)
        if what == NOTHING:
            return np.zeros(len(documents), np.int64)
        if what == NAME:
            return one.store.about[documents, ID]
        if what == OF_ROW:
            return one.of_rows(place)
        nodes = one.found[:, 3 + place]
        if what == TEXT_OF:
            return self._values(documents, nodes, one.store)
        known, inverse = np.unique(documents * _NODES + nodes, return_inverse=True)
        made = (self._copied if what == CONTENT else self._shown)(known, one.store)
        return self._strings.codes(pa.array(made, pa.string()))[inverse]

    def _values(self, documents: Words, nodes: Words, store: DocumentStore) -> Words:
        """The codes of the string values of nodes."""
        codes = store.values_at(documents, nodes)
        missing = np.flatnonzero(codes < 0)
        if len(missing):
            known, inverse = np.unique(
                documents[missing] * _NODES + nodes[missing], return_inverse=True
            )
            texts = [self._value_of(text, node) for text, node in self._texts(known, store)]
            codes[missing] = self._strings.codes(pa.array(texts, pa.string()))[inverse]
        return codes

    def _texts(self, known: Words, store: DocumentStore) -> list[tuple[str, int]]:
        texts = self._strings.array(store.about[known // _NODES, TEXT], None).to_pylist()
        return list(zip(texts, (known % _NODES).tolist(), strict=True))

    def _shown(self, known: Words, store: DocumentStore) -> list[str]:
        """Nodes as documents."""
        return [self._shown_of(text, node) for text, node in self._texts(known, store)]

    def _copied(self, known: Words, store: DocumentStore) -> list[str]:
        """Nodes as the content of an element."""
        return [self._copy_of(text, node) for text, node in self._texts(known, store)]

    def _copy_of(self, text: str, node: int) -> str:
        with _held():
            return self._reader.show(text).content(node) if text else _FORGOTTEN

    def _value_of(self, text: str, node: int) -> str:
        with _held():
            return self._reader.show(text).value(node) if text else _FORGOTTEN

    def _shown_of(self, text: str, node: int) -> str:
        with _held():
            return self._reader.show(text).shown(node) if text else _FORGOTTEN

    def _results(self, one: _Rows) -> Words:
        """The codes of results: what each block is about, below one root."""
        keys = [
            one.of_rows(place)
            if what == OF_ROW
            else one.documents(side) * _NODES + one.found[:, 3 + place]
            for what, side, place in one.template.parts
        ]
        rows, inverse = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
        parts: list[list[str]] = []
        for column, (what, _, _) in enumerate(one.template.parts):
            known, places = np.unique(rows[:, column], return_inverse=True)
            shown = (
                self._strings.array(known, None).to_pylist()
                if what == OF_ROW
                else self._shown(known, one.store)
            )
            parts.append([shown[place] for place in places.tolist()])
        made = parts[0] if len(parts) == 1 else list(map(together, *parts))
        return self._strings.codes(pa.array(made, pa.string()))[inverse.ravel()]


@contextmanager
def _held() -> Iterator[None]:
    """A document that is held was read when it came: if it cannot be read now, it is another one."""
    try:
        yield
    except (Unreadable, IndexError) as error:
        raise damaged(f"a document that is held cannot be read ({error})") from error


class _Rows(NamedTuple):
    """Bindings of one template."""

    found: Words
    template: Template
    store: DocumentStore
    held: DocumentRows | None

    def documents(self, side: int) -> Words:
        """The documents of one side of the join."""
        return self.found[:, 1 + self.template.sides[side]]

    def of_rows(self, place: int) -> Words:
        """A value of the rows of the join before."""
        assert self.held is not None
        return self.held.at(self.documents(0), self.found[:, 3 + self.template.row], place)


def _groups(one: _Rows) -> Words:
    """Of each row the first that the one who reads the results in the end cannot tell from it."""
    if one.template.told == one.template.shown:
        return np.arange(len(one.found))
    columns = [0, 1, 2, *(3 + slot for slot in one.template.told)]
    _, first, inverse = np.unique(
        one.found[:, columns], axis=0, return_index=True, return_inverse=True
    )
    return first[inverse.ravel()]


def together(*parts: str) -> str:
    """Several results as one document; beside JSON, what is XML is a text."""
    if all(map(is_xml, parts)):
        return f"<result>{''.join(parts)}</result>"
    texts = [json.dumps(p, ensure_ascii=False) if is_xml(p) else p for p in parts]
    return f'{{"result": [{", ".join(texts)}]}}'


def _layout(width: int, partial: bool) -> Layout:
    return Layout(tuple(str(number) for number in range(width + (1 if partial else 3))))
