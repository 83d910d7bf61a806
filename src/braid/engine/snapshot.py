"""Snapshots of an engine as bytes: a JSON header, then the pages of its state.

Queries are saved as text and bound again, so that a snapshot holds no code. The header names each
page with its length and checksum and has a checksum itself: every byte is verified before any of
it is used.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from braid.algebra.constraints import Constraint
from braid.algebra.schema import Schema
from braid.algebra.streams import Stream
from braid.engine.checksums import SIZE, checksum, damaged, reading
from braid.engine.constraints import constraint_from_json, constraint_to_json
from braid.engine.options import Options
from braid.engine.state import STATE_FORMAT
from braid.engine.state_pages import SavedPages
from braid.errors import CheckpointError
from braid.lang import Catalog

MAGIC = b"BRAID2\n"

#: Snapshots without checksums began so.
_UNCHECKED = b"BRAID1\n"

_HEADER = "the header of the snapshot"
_ANEW = "restore an older snapshot, or start anew"


@dataclass(frozen=True)
class SavedQuery:
    """A query, or a prepared one with its members."""

    id: str
    text: str
    members: pa.Table | None


@dataclass(frozen=True)
class SavedView:
    """A view: its statement, and the names that must be known before it."""

    text: str
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Saved:
    streams: tuple[Stream, ...]
    views: tuple[SavedView, ...]
    queries: tuple[SavedQuery, ...]
    options: Options
    pages: SavedPages
    constraints: tuple[Constraint, ...]
    ending: dict[str, int]


def write(catalog: Catalog, options: Options, pages: SavedPages) -> bytes:
    header = {
        "format": STATE_FORMAT,
        "streams": [stream_to_json(s) for s in catalog.streams.values()],
        "views": [[v.text, [*v.reads, *v.views]] for v in catalog.views.values()],
        "queries": [
            [q.id, q.text, None if q.members is None else _packed(q.members)]
            for q in _queries(catalog)
        ],
        "options": options.to_json(),
        "constraints": [constraint_to_json(c) for c in catalog.constraints.values()],
        "ending": catalog.ending,
        "pages": [[key, len(page), pages.digests[key].hex()] for key, page in pages.items()],
    }
    text = json.dumps(header).encode()
    sealed = [len(text).to_bytes(8, "little"), checksum(_HEADER, text), text]
    return b"".join([MAGIC, *sealed, *pages.values()])


def read(data: bytes) -> Saved:
    """What was written; E421 if these are other bytes, E420 if another version wrote them."""
    if data.startswith(_UNCHECKED):
        _refuse_unchecked(data)
    if not data.startswith(MAGIC):
        raise CheckpointError("E421", "these bytes are not a snapshot of an engine", _ANEW)
    start = len(MAGIC) + 8 + SIZE
    size = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    text = data[start : start + size]
    if len(text) != size or checksum(_HEADER, text) != data[start - SIZE : start]:
        raise damaged(f"{_HEADER} does not have the checksum that it was saved with", _ANEW)
    with reading(_HEADER, _ANEW):
        header = json.loads(text)
        if header["format"] != STATE_FORMAT:
            raise _other_format(header["format"])
        pages = _pages(data, start + size, header["pages"])
        return Saved(
            tuple(stream_from_json(s) for s in header["streams"]),
            tuple(SavedView(text, tuple(reads)) for text, reads in header["views"]),
            tuple(
                SavedQuery(query, text, None if packed is None else _unpacked(packed))
                for query, text, packed in header["queries"]
            ),
            Options.from_json(header["options"]),
            pages,
            tuple(constraint_from_json(c) for c in header["constraints"]),
            header["ending"],
        )


def _pages(data: bytes, at: int, listed: list[tuple[str, int, str]]) -> SavedPages:
    """The pages behind the header, each with the checksum that the header has of it."""
    pages = SavedPages()
    for key, length, digest in listed:
        page = data[at : at + length]
        at += length
        if length < 0 or len(page) != length:
            raise damaged(f"it ends inside page {key}", _ANEW)
        if checksum(key, page).hex() != digest:
            raise damaged(f"page {key} does not have the checksum it was saved with", _ANEW)
        pages[key], pages.digests[key] = page, bytes.fromhex(digest)
    if at != len(data):
        raise damaged(f"it has {len(data) - at} bytes after its last page", _ANEW)
    return pages


def _refuse_unchecked(data: bytes) -> None:
    """Say which format an older snapshot has; what only begins like one is damaged."""
    start = len(_UNCHECKED) + 8
    size = int.from_bytes(data[len(_UNCHECKED) : start], "little")
    with reading(_HEADER, _ANEW):
        raise _other_format(int(json.loads(data[start : start + size])["format"]))


def _other_format(found: object) -> CheckpointError:
    return CheckpointError(
        "E420",
        f"the snapshot has format {found}, this version reads {STATE_FORMAT}",
        "restore it with the version that wrote it, or start anew",
    )


def _queries(catalog: Catalog) -> Iterator[SavedQuery]:
    """In an order in which each can be bound again."""
    prepared = {roster.template: roster for roster in catalog.prepared.values()}
    for members in catalog.members():
        roster = prepared.get(members.template)
        if roster is None:
            for name in members.ids.to_pylist():
                yield SavedQuery(name, catalog.queries[name].text, None)
            continue
        columns = {f"c{k}": column for k, column in enumerate(members.values)}
        table = pa.table({"id": members.ids, **columns})
        yield SavedQuery(roster.statement.name, roster.statement.text, table)


def _packed(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def _unpacked(text: str) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(text))) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


def stream_to_json(stream: Stream) -> dict[str, object]:
    columns = pa.schema([(a.name, a.type) for a in stream.columns])
    return {
        "name": stream.name,
        "columns": base64.b64encode(columns.serialize().to_pybytes()).decode(),
        "time": list(stream.time),
        "lateness": stream.lateness,
        "sequence": stream.sequence,
        "sharable": list(stream.sharable),
        "documents": list(stream.documents),
        "json": list(stream.json),
    }


def stream_from_json(saved: Mapping[str, Any]) -> Stream:
    raw = pa.py_buffer(base64.b64decode(str(saved["columns"])))
    columns = Schema.of((f.name, f.type) for f in pa.ipc.read_schema(raw))
    return Stream(
        str(saved["name"]),
        columns,
        tuple(saved["time"]),
        int(saved["lateness"]),
        saved["sequence"],
        tuple(saved["sharable"]),
        tuple(saved.get("documents", ())),
        tuple(saved.get("json", ())),
    )
