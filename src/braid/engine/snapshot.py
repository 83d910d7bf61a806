"""Snapshots of an engine as bytes: a JSON header, then the pages of its state.

Queries are saved as text and bound again, so that a snapshot holds no code.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from braid.algebra.schema import Schema
from braid.algebra.streams import Stream
from braid.engine.shard import STATE_FORMAT, Options
from braid.errors import CheckpointError
from braid.lang import Catalog

MAGIC = b"BRAID1\n"


@dataclass(frozen=True)
class Saved:
    streams: tuple[Stream, ...]
    queries: tuple[tuple[str, str], ...]
    instance_budget: int
    idle_timeout: int | None
    pages: dict[str, bytes]


def write(catalog: Catalog, options: Options, pages: Mapping[str, bytes]) -> bytes:
    header = {
        "format": STATE_FORMAT,
        "streams": [stream_to_json(s) for s in catalog.streams.values()],
        "queries": [[q.id, q.text] for q in catalog.queries.values()],
        "instance_budget": options.instance_budget,
        "idle_timeout": options.idle_timeout,
        "pages": [[key, len(page)] for key, page in pages.items()],
    }
    text = json.dumps(header).encode()
    return b"".join([MAGIC, len(text).to_bytes(8, "little"), text, *pages.values()])


def read(data: bytes) -> Saved:
    if not data.startswith(MAGIC):
        raise CheckpointError("E421", "this is not a snapshot of an engine")
    start = len(MAGIC) + 8
    size = int.from_bytes(data[len(MAGIC) : start], "little")
    header = json.loads(data[start : start + size])
    if header["format"] != STATE_FORMAT:
        raise CheckpointError(
            "E420",
            f"the snapshot has format {header['format']}, this version reads {STATE_FORMAT}",
            "restore it with the version that wrote it",
        )
    pages, at = {}, start + size
    for key, length in header["pages"]:
        pages[key] = data[at : at + length]
        at += length
    if at != len(data):
        raise CheckpointError("E421", "the snapshot is cut off or damaged")
    return Saved(
        tuple(stream_from_json(s) for s in header["streams"]),
        tuple((query, text) for query, text in header["queries"]),
        header["instance_budget"],
        header["idle_timeout"],
        pages,
    )


def stream_to_json(stream: Stream) -> dict[str, object]:
    columns = pa.schema([(a.name, a.type) for a in stream.columns])
    return {
        "name": stream.name,
        "columns": base64.b64encode(columns.serialize().to_pybytes()).decode(),
        "time": list(stream.time),
        "lateness": stream.lateness,
        "sequence": stream.sequence,
        "sharable": list(stream.sharable),
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
    )
