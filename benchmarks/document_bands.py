"""Joins of documents by order: a price of an earlier document between two bounds of a later one."""

from __future__ import annotations

import random
import time
from typing import Any

from benchmarks.documents import STREAM
from benchmarks.harness import Measured, Prepared

_SPREAD = 1_000_000


def _document(draw: random.Random, width: int) -> str:
    price, low = draw.randrange(_SPREAD), draw.randrange(_SPREAD)
    return f"<r><price>{price}</price><low>{low}</low><high>{low + width}</high></r>"


class Bands:
    """Queries that differ in their windows, over documents of which few lie in a band."""

    def __init__(self, queries: int, documents: int, *, matches: float, in_order: bool) -> None:
        draw = random.Random(5)
        width = int(2 * matches * _SPREAD / documents)
        self._documents = [_document(draw, width) for _ in range(documents)]
        self._windows = [documents - number for number in range(queries)]
        self._rules = None if in_order else {"xml_order": False}
        self._engine: Any = None

    def prepare(self) -> Prepared:
        import braid

        started = time.perf_counter()
        self._engine = braid.Engine(idle_timeout=None, rules=self._rules)
        self._engine.execute(STREAM)
        self._engine.query(
            "band",
            "CREATE QUERY band FOR EACH (w BIGINT) AS SELECT x FROM S/r[./price->x] "
            "FOLLOWED BY{x > l AND x < h, :w} S/r[./low->l][./high->h]",
            {"w": self._windows},
        )
        return Prepared(0.0, time.perf_counter() - started)

    def measure(self) -> Measured:
        self.prepare()
        matches, count, seconds = 0, len(self._documents), 0.0
        for begin in range(0, count, 200):
            part = self._documents[begin : begin + 200]
            times = list(range(begin, begin + len(part)))
            started = time.perf_counter()
            self._engine.process({"S": {"doc": part, "t": times}})
            seconds += time.perf_counter() - started
            matches += int(self._engine.stats["matches"])
        return Measured(seconds, count, {"band": matches})

    def close(self) -> None:
        self._engine = None
