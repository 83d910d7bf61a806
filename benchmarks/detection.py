"""Path joins of two to six streams: as joins, and as detections that only say that there is a result.

Streams S0, S1, ... in turn, one event a tick; `Sk.b = Sk+1.a` for all k, values drawn evenly from a domain, a
window of time on each stream that holds `window` events. In the *dense* workload the domain is half of
that: each probe has two matches, so that an event has 2, 4, ... 32 results for 2 to 6 streams. In the *rare* one
it is so large that an event has a result in one of twenty cases, and what is asked is how often a detection
that is not verified says so without reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.engines import Pass, one_pass
from benchmarks.workloads import Ints

RARE = 0.05


@dataclass(frozen=True)
class Chain:
    """A path of streams and their events."""

    streams: int
    window: int
    domain: int
    events: int
    step: int
    seed: int

    @staticmethod
    def dense(streams: int, size: Mapping[str, Any]) -> Chain:
        window = size["window"]
        return Chain(streams, window, window // 2, size["events"], size["step"], size["seed"])

    @staticmethod
    def rare(streams: int, size: Mapping[str, Any]) -> Chain:
        window = size["window"]
        domain = round(window / RARE ** (1 / (streams - 1)))
        return Chain(streams, window, domain, size["rare_events"], size["step"], size["seed"])

    # ---- texts ----

    @property
    def declarations(self) -> str:
        return "".join(
            f"CREATE STREAM S{k} (a BIGINT, b BIGINT, c BIGINT, t BIGINT) TIME t;\n"
            for k in range(self.streams)
        )

    @property
    def _from(self) -> str:
        span = self.streams * self.window - 1
        inputs = ", ".join(f"S{k} [Range {span}]" for k in range(self.streams))
        where = " AND ".join(f"S{k}.b = S{k + 1}.a" for k in range(self.streams - 1))
        return f"FROM {inputs} WHERE {where}"

    @property
    def join(self) -> str:
        last = self.streams - 1
        return f"CREATE QUERY q AS SELECT S0.c AS first, S{last}.c AS last {self._from};"

    def detection(self, settings: str) -> str:
        return f"CREATE QUERY q AS DETECT Found {self._from} {settings};"

    # ---- events ----

    @cached_property
    def batches(self) -> list[dict[str, pa.Table]]:
        random = np.random.default_rng(self.seed)
        each = self.events // self.streams
        columns = [
            {name: random.integers(0, self.domain, each) for name in "abc"}
            | {"t": np.arange(each, dtype=np.int64) * self.streams + k}
            for k in range(self.streams)
        ]
        step = self.step // self.streams
        return [
            {
                f"S{k}": pa.table({n: v[start : start + step] for n, v in columns[k].items()})
                for k in range(self.streams)
            }
            for start in range(0, each, step)
        ]

    def run(self, query: str) -> tuple[Pass, Ints]:
        """The run, and the instants of its results."""
        done = one_pass(self.declarations + query, self.batches)
        tables = done.results.get("q", [])
        ends = [table.column("end").to_numpy() for table in tables]
        return done, np.unique(np.concatenate([np.empty(0, np.int64), *ends]))

    def answered(self, instants: Ints, batch: int) -> Ints:
        """The instants at which batches end in which something happened at these."""
        stream, number = instants % self.streams, instants // self.streams
        last = (number // batch + 1) * batch - 1
        ends = last * self.streams + stream
        return np.unique(ends[last < self.events // self.streams])
