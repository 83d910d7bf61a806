"""Events that belong to several streams at once: the same as if each stream had got them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

import braid
from tests.properties.law import RULE_SETS

STREAMS = ("S0", "S1", "S2")
#: The columns of the sharable streams: alike, in another order, more of them, other types.
COLUMNS = (
    ("k BIGINT, x BIGINT", "k BIGINT, x BIGINT", "k BIGINT, x BIGINT"),
    ("k BIGINT, x BIGINT", "x BIGINT, k BIGINT", "k BIGINT, x BIGINT"),
    ("k BIGINT, x BIGINT", "k BIGINT, e DOUBLE, x BIGINT", "f STRING, x BIGINT, k BIGINT"),
    ("k BIGINT, e DOUBLE, x BIGINT", "k BIGINT, x BIGINT", "e DOUBLE, x BIGINT, k BIGINT"),
    ("k BIGINT, e DOUBLE, x BIGINT", "k BIGINT, x BIGINT", "e STRING, x BIGINT, k BIGINT"),
)


def declared(columns: tuple[str, ...]) -> str:
    streams = "".join(
        f"CREATE STREAM {name} ({own}, t BIGINT) TIME t"
        + ("" if name == STREAMS[0] else f" SHARABLE WITH {STREAMS[0]}")
        + ";"
        for name, own in zip(STREAMS, columns, strict=True)
    )
    return f"{streams} CREATE STREAM T (k BIGINT, x BIGINT, t BIGINT) TIME t;"


#: With one bound asked inside, one asked where results come out, edges, an index of edges,
#: several steps, iteration, and streams that come out again.
SHAPES = (
    "SELECT * FROM {s} NEXT{{$2.k = $1.k AND DUR <= {w}}} T",
    "SELECT k_1, x FROM {s} NEXT{{$2.k = $1.k}} T",
    "SELECT * FROM FILTER{{x > {c}}}({s} NEXT{{$2.k = $1.k AND DUR <= {w}}} T)",
    "SELECT * FROM FILTER{{x_1 + x > {c}}}({s} NEXT{{$2.k = {c}}} T)",
    "SELECT * FROM FILTER{{x > {c}}} {s} NEXT{{$2.k = $1.k AND DUR <= {w}}} T",
    "SELECT * FROM ({s} NEXT{{$2.k = $1.k AND DUR <= {w}}} T) NEXT{{$2.x > {c}}} T",
    "SELECT * FROM {s} FOLD{{$2.k = $1.k AND DUR <= {w}, $2.x > $.x, }} T",
    "SELECT * FROM T NEXT{{$2.k = $1.k AND DUR <= {w}}} {s}",
    "SELECT * FROM (SELECT k, x FROM {s}) UNION T",
    "SELECT * FROM SAMETIME{{ARG_MAX(x), count(*) AS n}} {s}",
    "SELECT * FROM SAMETIME{{ARG_MAX(x), count(*) AS n}}(FILTER{{x > {c}}} {s})",
    "SELECT * FROM SAMETIME{{count(*) AS n, sum(x) AS x}}((SELECT k, x FROM {s}) UNION T) NEXT{{$2.k = {c}}} T",
    "SELECT * FROM SAMETIME{{sum(x) AS x}}({s} NEXT{{$2.k = $1.k AND DUR <= {w}}} T)",
)

Batch = list[tuple[tuple[str, ...], int, int, int]]

queries = st.builds(
    lambda shape, stream, window, constant: shape.format(s=stream, w=window, c=constant),
    st.sampled_from(SHAPES),
    st.sampled_from(STREAMS),
    st.integers(0, 6),
    st.integers(0, 3),
)
#: Whose an event is (T alone, or some of the others), its key, its value, how much later it is.
events = st.tuples(
    st.one_of(
        st.just(("T",)),
        st.sampled_from(STREAMS).map(lambda name: (name,)),
        st.sets(st.sampled_from(STREAMS), min_size=2).map(lambda names: tuple(sorted(names))),
        st.just(STREAMS),
    ),
    st.integers(0, 1),
    st.integers(0, 4),
    st.integers(0, 2),
)


def tables_of(batch: Batch, times: list[int], together: bool) -> dict[Any, dict[str, list[int]]]:
    """A batch as an engine takes it: by the streams that events belong to, or by stream."""
    tables: dict[Any, dict[str, list[int]]] = {}
    for (streams, key, value, _), time in zip(batch, times, strict=True):
        for name in (streams,) if together and len(streams) > 1 else streams:
            table = tables.setdefault(name, {"k": [], "x": [], "e": [], "f": [], "t": []})
            words = (("k", key), ("x", value), ("e", value + 1), ("f", key), ("t", time))
            for column, word in words:
                table[column].append(word)
    return tables


class Fed:
    """An engine and what it has put out."""

    def __init__(self, columns: tuple[str, ...], rules: Any, together: bool, budget: int) -> None:
        self.engine = braid.Engine(rules=rules, instance_budget=budget)
        self.engine.execute(declared(columns))
        self._together = together
        self.found: Counter[str] = Counter()

    def feed(self, batch: Batch, times: list[int]) -> None:
        self.engine.process(tables_of(batch, times, self._together))
        self.found.update(map(repr, self.engine.matches.to_pylist()))

    def finish(self) -> Counter[str]:
        self.engine.finish()
        self.found.update(map(repr, self.engine.matches.to_pylist()))
        return self.found

    def move(self) -> None:
        """Go on elsewhere."""
        self.engine = braid.Engine.restore(self.engine.snapshot())


@given(st.data())
def test_events_of_several_streams_are_events_of_each(data: st.DataObject) -> None:
    rules = data.draw(st.sampled_from(RULE_SETS))
    budget = data.draw(st.sampled_from([2, 1_000, 1_000]))
    columns = data.draw(st.sampled_from(COLUMNS))
    both = [
        Fed(columns, rules, True, budget),
        Fed(columns, {"c_seq": False, "c_mu": False}, False, budget),
    ]
    texts = data.draw(st.lists(queries, min_size=1, max_size=5))
    batches = data.draw(st.lists(st.lists(events, max_size=6), min_size=1, max_size=6))
    late = data.draw(st.dictionaries(st.integers(0, len(batches) - 1), queries, max_size=2))
    gone = data.draw(st.integers(0, len(batches)))
    moves = data.draw(st.sets(st.integers(0, len(batches) - 1), max_size=2))
    note(repr((columns, rules, budget, texts, batches, late, gone, moves)))
    for fed in both:
        now = 0
        for number, text in enumerate(texts):
            fed.engine.query(f"q{number}", text)
        for number, batch in enumerate(batches):
            times = [now := now + later for *_, later in batch]
            fed.feed(batch, times)
            if number in late:
                fed.engine.query(f"late{number}", late[number])
            if number == gone:
                fed.engine.drop("q0")
            if number in moves:
                fed.move()
    assert both[0].finish() == both[1].finish()
