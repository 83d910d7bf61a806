"""Shared events: events that belong to several streams, for m-ops that read one of these streams."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from braid.algebra.streams import Stream
from braid.operators.core.columnar_input import Columns, rows_of
from braid.operators.core.columns import Rows
from braid.plan.layout import END
from braid.plan.specs import Shape

#: Streams, and the events that belong to all of them.
SharedEvents = tuple[tuple[str, ...], Rows]


def with_shared_events(
    sources: Mapping[str, Rows | Columns], feeds: Sequence[SharedEvents], direct: Collection[str]
) -> dict[str, Rows]:
    """All events of the streams in `direct` that have shared events, in order of `end`."""
    found: dict[str, list[Rows]] = {}
    for streams, rows in feeds:
        for stream in streams:
            if stream in direct and len(rows):
                found.setdefault(stream, []).append(rows)
    whole = {}
    for stream, parts in found.items():
        own = [rows_of(sources[stream])] if stream in sources else []
        rows = np.concatenate([*own, *parts])
        whole[stream] = rows[np.argsort(rows[:, END], kind="stable")]
    return whole


def completed(events: pa.RecordBatch, streams: Sequence[Stream], shape: Shape) -> pa.RecordBatch:
    """Events of these streams with all attributes of the channel that they are in: NULL where none of
    the streams has the attribute. Queries of these streams don't read it."""
    own = {name for stream in streams for name in stream.schema.names}
    for attribute in shape.schema:
        if attribute.name not in own and attribute.name not in events.schema.names:
            events = events.append_column(attribute.name, pa.nulls(events.num_rows, attribute.type))
    return events
