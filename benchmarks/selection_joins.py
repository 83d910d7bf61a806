"""The workload of 003, section 4: queries that join streams on a key and restrict all attributes.

Streams S0, S1, ... take turns, a tuple a tick. Attributes are short integers, drawn evenly; a query has
for each an interval as long as that of all others, at any place, so that of the combinations of
tuples the wanted share is what is asked for. Keys are drawn from so many values that a tuple finds
`per_probe` tuples of each other stream in its window.

`expected` works the answers out query by query with plain loops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pyarrow as pa

from benchmarks.engines import TIME, Source
from benchmarks.workloads import Ints

#: Values of an attribute.
DOMAIN = 32_768
#: Tuples that each stream has in its window.
HELD = 100


@dataclass(frozen=True)
class Workload:
    """Table 1: attributes of each stream, the selectivity of a query, partners per probe."""

    queries: int
    dimensions: tuple[int, ...] = (5, 5)
    selectivity: float = 0.0001
    per_probe: int = 20
    seed: int = 1
    streams: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "streams", len(self.dimensions))

    @property
    def window(self) -> int:
        return HELD * self.streams

    @property
    def name(self) -> str:
        dimensions = ":".join(map(str, self.dimensions))
        return f"{self.queries}, {dimensions}, {self.selectivity:.3%}, {self.per_probe}"

    def columns(self, stream: int) -> list[str]:
        return [f"a{stream}_{d}" for d in range(self.dimensions[stream])]

    @property
    def sources(self) -> list[Source]:
        return [
            Source(
                f"S{s}", pa.schema([(n, pa.int64()) for n in ("k", "id", *self.columns(s), TIME)])
            )
            for s in range(self.streams)
        ]

    @property
    def attributes(self) -> list[str]:
        return [name for s in range(self.streams) for name in self.columns(s)]

    @property
    def text(self) -> str:
        parameters = [f"{name}_{end} BIGINT" for name in self.attributes for end in ("lo", "hi")]
        shown = ", ".join(f"S{s}.id AS id{s}" for s in range(self.streams))
        windows = ", ".join(f"S{s} [Range {self.window}]" for s in range(self.streams))
        joins = [f"S0.k = S{s}.k" for s in range(1, self.streams)]
        ranges = [
            f"S{s}.{n} BETWEEN :{n}_lo AND :{n}_hi"
            for s in range(self.streams)
            for n in self.columns(s)
        ]
        asked = " AND ".join([*joins, *ranges])
        return (
            f"CREATE QUERY q FOR EACH ({', '.join(parameters)}) AS"
            f" SELECT {shown} FROM {windows} WHERE {asked}"
        )

    def boxes(self) -> tuple[Ints, Ints]:
        """Where the interval of each query begins and ends, for all attributes."""
        share = self.selectivity ** (1 / len(self.attributes))
        # At any place, also over the edge: so each value is in the same share of intervals.
        length = round(DOMAIN * share / (1 - share))
        drawn = np.random.default_rng((self.seed, 11))
        low = drawn.integers(1 - length, DOMAIN, (self.queries, len(self.attributes)))
        return low, low + length - 1

    def rows(self) -> pa.Table:
        low, high = self.boxes()
        columns = {"id": np.arange(self.queries)}
        for number, name in enumerate(self.attributes):
            columns |= {f"{name}_lo": low[:, number], f"{name}_hi": high[:, number]}
        return pa.table(columns)

    def tuples(self, count: int) -> Ints:
        """Of each tick: key, then as many values as a stream has attributes at most."""
        drawn = np.random.default_rng((self.seed, 12))
        values = drawn.integers(0, DOMAIN, (count, max(self.dimensions) + 1))
        values[:, 0] %= max(1, HELD // self.per_probe)
        return values

    def tables(self, tuples: Ints, first: int, last: int, offset: int) -> dict[str, pa.Table]:
        """What comes from one tick to another, by stream."""
        found = {}
        for stream in range(self.streams):
            ticks = np.arange(first + (stream - first) % self.streams, last, self.streams)
            columns = {"k": tuples[ticks, 0], "id": ticks}
            for d, name in enumerate(self.columns(stream)):
                columns[name] = tuples[ticks, 1 + d]
            found[f"S{stream}"] = pa.table(columns | {TIME: ticks + offset})
        return found

    def expected(self, tuples: Ints, queries: int, ticks: tuple[int, int]) -> Ints:
        """Of the first queries: query, instant, ids, of what comes at some ticks."""
        low, high = self.boxes()
        edges = np.cumsum([0, *self.dimensions])
        found = []
        for query in range(queries):
            wanted = []
            for s in range(self.streams):
                own = np.arange(s, len(tuples), self.streams)
                values = tuples[own, 1 : 1 + self.dimensions[s]]
                part = slice(edges[s], edges[s + 1])
                inside = (values >= low[query, part]) & (values <= high[query, part])
                wanted.append(own[inside.all(axis=1)])
            for key in range(int(tuples[:, 0].max()) + 1):
                for ids in product(*(own[tuples[own, 0] == key].tolist() for own in wanted)):
                    at = max(ids)
                    if at - min(ids) <= self.window and ticks[0] <= at < ticks[1]:
                        found.append((query, at, *ids))
        return np.array(found, np.int64).reshape(len(found), 2 + self.streams)
