"""Lifetimes of queries: births and deaths in event time, as part of the saved state.

A query that is registered from the start sees all events. A query that is added later has the
results that start at its birth or later, the same on every shard and after every restart. A
dropped query has no results that end at its death or later.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from braid.engine.checksums import reading
from braid.engine.query_registry import QueryRegistry
from braid.operators.core.subscriber_index import ALWAYS
from braid.operators.core.values import Words

_ROSTER = pa.schema(
    [pa.field("id", pa.string(), nullable=False), pa.field("birth", pa.int64(), nullable=False)]
)


class QueryLifetimes:
    """The birth of each query of a shard.

    `pages` is the saved state to resume from, if any. `given` has the births of queries that the
    saved state does not contain.
    """

    def __init__(
        self, pages: Mapping[str, bytes] | None, given: Mapping[str, int] | None = None
    ) -> None:
        self._given = given or {}
        self._known: dict[str, int] | None = None
        self._page: tuple[tuple[int, int], bytes] | None = None
        if pages is not None:
            with reading("the page roster"):
                table = pa.ipc.open_stream(pages["roster"]).read_all()
                table.validate(full=True)
                table = table.cast(_ROSTER)
                births = table.column("birth").to_pylist()
                self._known = dict(zip(table.column("id").to_pylist(), births, strict=True))

    def births(self, ids: pa.StringArray, now: int) -> Words | None:
        """The birth of each query: as saved, as given, or now.

        None if there is neither saved state nor a given birth: all queries exist from the start.
        """
        if self._known is None and not self._given:
            return None
        known, given = self._known or {}, self._given
        default = int(ALWAYS) if self._known is None else now
        return np.array(
            [known.get(name, given.get(name, default)) for name in ids.to_pylist()], np.int64
        )

    def record(self, ids: pa.StringArray, births: Words) -> None:
        """Record queries that are added while the shard runs."""
        if self._known is not None:
            self._known.update(zip(ids.to_pylist(), births.tolist(), strict=True))

    def forget(self, name: str) -> None:
        """Remove a dropped query: a later query of the same name is a new one."""
        if self._known is not None:
            self._known.pop(name, None)

    def page(self, registry: QueryRegistry) -> bytes:
        """The registered queries and their births as a page; rebuilt only after a change."""
        version = (registry.count, registry.version)
        if self._page is None or self._page[0] != version:
            self._page = (version, _page(registry))
        return self._page[1]


def _page(registry: QueryRegistry) -> bytes:
    ids, births = [], []
    for admitted, rows in registry.living():
        ids.append(admitted.ids.take(pa.array(rows, pa.int64())))
        births.append(admitted.births[rows])
    names = pa.concat_arrays(ids) if ids else pa.array([], pa.string())
    times = np.concatenate(births) if births else np.empty(0, np.int64)
    table = pa.table({"id": names, "birth": pa.array(times, pa.int64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
