"""How the cases over documents are run: all queries in one engine, or one after the other by lxml.

Whoever goes through the queries one by one has each document parsed once, paths compiled once for
all queries that have them, and a table of values for each query: nothing but the sharing is left out.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from lxml import etree

from benchmarks.documents import STREAM, Query, shapes
from benchmarks.engines import label
from benchmarks.harness import Measured, Prepared

ENDLESS = "unbounded"
_NEUTRAL = "<neutral/>"
_VALUES = re.compile(r">([^<]+)<")


class Together:
    """All queries in one engine; the first documents are those that answers are compared on."""

    def __init__(
        self,
        queries: Sequence[Query],
        documents: Sequence[str],
        checked: int,
        *,
        question: str,
        window: str = "1",
        root: str = "r",
        rules: Any = None,
        batch: int = 200,
    ) -> None:
        self._queries = queries
        self._documents = documents
        self._checked = checked
        self._question = question
        self._shape = (window, root)
        self._rules = rules
        self._batch = batch
        self._time = 0
        self._engine: Any = None

    def prepare(self) -> Prepared:
        """Queries that never forget have a new engine each round: rounds would see each other."""
        import braid

        self._engine = braid.Engine(idle_timeout=None, rules=self._rules)
        self._engine.execute(STREAM)
        window, root = self._shape
        made = shapes(self._queries, window, root=root)
        started = time.perf_counter()
        for number, shape in enumerate(made):
            self._engine.query(f"q{number}", shape.text, shape.columns)
        self._feed(["<other/>"])
        registered = time.perf_counter() - started
        return Prepared(0.0, registered)

    def _feed(self, documents: Sequence[str]) -> tuple[float, int]:
        """Seconds and matches; the documents that follow have nothing in common with these."""
        seconds, matches = 0.0, 0
        for begin in range(0, len(documents) + 1, self._batch):
            part = list(documents[begin : begin + self._batch])
            if begin + self._batch > len(documents):
                part.append(_NEUTRAL)
            times = list(range(self._time, self._time + len(part)))
            started = time.perf_counter()
            self._engine.process({"S": {"doc": part, "t": times}})
            seconds += time.perf_counter() - started
            matches += int(self._engine.stats["matches"])
            self._time += len(part)
        self._time += 10
        started = time.perf_counter()
        self._engine.process({"S": {"doc": [_NEUTRAL], "t": [self._time]}})
        matches += int(self._engine.stats["matches"])
        self._time += 10
        return seconds + time.perf_counter() - started, matches

    def measure(self) -> Measured:
        if self._shape[0] == ENDLESS:
            self.prepare()
        _, answer = self._feed(self._documents[: self._checked])
        seconds, matches = self._feed(self._documents[self._checked :])
        count = len(self._documents) - self._checked
        held = int(self._engine.stats["state_bytes"])
        extra = {
            "documents_per_s": count / seconds,
            "matches_per_document": matches / count,
            "bytes_per_value": held / distinct_values(self._documents),
        }
        return Measured(seconds, count, {self._question: answer}, held, extra)

    def close(self) -> None:
        self._engine = None


def distinct_values(documents: Sequence[str]) -> int:
    """How many different texts the leaves of documents have."""
    return len({text for document in documents for text in _VALUES.findall(document)})


class OneByOne:
    """Each query for itself: its paths by lxml's XPath, its values in a table of its own."""

    def __init__(
        self,
        queries: Sequence[Query],
        documents: Sequence[str],
        window: int,
        *,
        question: str,
        root: str = "r",
    ) -> None:
        self._question = question
        self._documents = documents
        self._window = window
        paths: dict[str, Any] = {}

        def compiled(path: tuple[str, ...]) -> Any:
            text = f"string(/{root}/{'/'.join(path)})"
            return paths.setdefault(text, etree.XPath(text))

        self._queries = [
            ([compiled(p) for p in q.left], [compiled(p) for p in q.right]) for q in queries
        ]

    def prepare(self) -> Prepared:
        return Prepared()

    def measure(self) -> Measured:
        tables: list[dict[tuple[Any, ...], list[int]]] = [defaultdict(list) for _ in self._queries]
        matches = 0
        started = time.perf_counter()
        for now, text in enumerate(self._documents):
            document = etree.fromstring(text)
            for (left, right), table in zip(self._queries, tables, strict=True):
                wanted = tuple([path(document) for path in right])
                for then in table.get(wanted, ()):
                    matches += 0 < now - then <= self._window
                table[tuple([path(document) for path in left])].append(now)
        seconds = time.perf_counter() - started
        return Measured(seconds, len(self._documents), {self._question: matches})

    def close(self) -> None:
        pass


class Paths:
    """Blocks of one document each, evaluated by the engine all at once or by lxml one by one."""

    def __init__(self, queries: Sequence[Query], documents: Sequence[str], shared: bool) -> None:
        self._documents = documents
        self._shared = shared
        self._texts = [query.left for query in queries]
        self._engine: Any = None
        self._compiled: list[Any] = []
        self._time = 0

    def prepare(self) -> Prepared:
        import braid

        started = time.perf_counter()
        if not self._shared:
            self._compiled = [etree.XPath(_xpath(paths)) for paths in self._texts]
            return Prepared(0.0, time.perf_counter() - started)
        self._engine = braid.Engine(idle_timeout=None)
        self._engine.execute(STREAM)
        for count in {len(paths) for paths in self._texts}:
            own = [paths for paths in self._texts if len(paths) == count]
            names = [f"p{k}" for k in range(2 * count)]
            declared = ", ".join(f"{name} STRING" for name in names)
            steps = "".join(f"[./:p{2 * k}/:p{2 * k + 1}]" for k in range(count))
            text = f"CREATE QUERY c{count} FOR EACH ({declared}) AS SELECT document FROM S/r{steps}"
            rows = [[name for path in paths for name in path] for paths in own]
            columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
            self._engine.query(f"c{count}", text, columns)
        self._feed(["<other/>"])
        return Prepared(0.0, time.perf_counter() - started)

    def _feed(self, documents: Sequence[str]) -> int:
        times = list(range(self._time, self._time + len(documents) + 1))
        self._time += len(times)
        self._engine.process({"S": {"doc": [*documents, _NEUTRAL], "t": times}})
        return int(self._engine.stats["matches"])

    def measure(self) -> Measured:
        started = time.perf_counter()
        if self._shared:
            matches = self._feed(self._documents)
        else:
            matches = 0
            for text in self._documents:
                document = etree.fromstring(text)
                matches += sum([bool(path(document)) for path in self._compiled])
        seconds = time.perf_counter() - started
        answer = {label(len(self._texts)): matches / len(self._documents)}
        return Measured(seconds, len(self._documents), answer)

    def close(self) -> None:
        self._engine = None


def _xpath(paths: Sequence[tuple[str, ...]]) -> str:
    return "boolean(/r" + "".join(f"[./{'/'.join(path)}]" for path in paths) + ")"
