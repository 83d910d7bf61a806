"""Joins of documents by order: a price of an earlier document between two bounds of a later one.

`kinds`: documents are of so many kinds, and are joined with those of their own kind only.
"""

from __future__ import annotations

import random
import time
from typing import Any

from benchmarks.documents import STREAM
from benchmarks.harness import Measured, Prepared

_SPREAD = 1_000_000


def _document(draw: random.Random, width: int, kinds: int) -> str:
    price, low, kind = draw.randrange(_SPREAD), draw.randrange(_SPREAD), draw.randrange(kinds)
    band = f"<low>{low}</low><high>{low + width}</high>"
    return f"<r><price>{price}</price>{band}<kind>{kind}</kind></r>"


class Bands:
    """Queries that differ in their windows, over documents of which few lie in a band."""

    def __init__(
        self, queries: int, documents: int, *, matches: float, in_order: bool, kinds: int = 1
    ) -> None:
        draw = random.Random(5)
        width = int(2 * kinds * matches * _SPREAD / documents)
        self._documents = [_document(draw, width, kinds) for _ in range(documents)]
        self._is_beside = kinds > 1
        self._windows = [documents - number for number in range(queries)]
        self._rules = None if in_order else {"xml_order": False}
        self._engine: Any = None

    def prepare(self) -> Prepared:
        import braid

        started = time.perf_counter()
        self._engine = braid.Engine(idle_timeout=None, rules=self._rules)
        self._engine.execute(STREAM)
        kinds, equal = ("[./kind->k]", "k = j AND ") if self._is_beside else ("", "")
        self._engine.query(
            "band",
            f"CREATE QUERY band FOR EACH (w BIGINT) AS SELECT x FROM S/r[./price->x]{kinds} "
            f"FOLLOWED BY{{{equal}x > l AND x < h, :w}} "
            f"S/r[./low->l][./high->h]{kinds.replace('k]', 'j]')}",
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
        return Measured(seconds, count, {"beside" if self._is_beside else "band": matches})

    def close(self) -> None:
        self._engine = None
