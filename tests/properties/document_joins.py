"""Random queries of several joins over documents that are so alike that many of them meet."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from braid.lang.catalog.catalog import Catalog
from braid.lang.catalog.compile import compile_query
from braid.lang.catalog.load import load
from braid.reference import Event
from tests.properties.expressions import Draw
from tests.properties.plans import Workload

STREAMS = """
CREATE STREAM S (id STRING, doc XML, t BIGINT) TIME t;
CREATE STREAM J (doc JSON, t BIGINT) TIME t;
"""
VALUES = ("1", "1", "2", "2.0", "x", "2024-01-01")
#: Blocks of each stream, what their variables are, and paths behind a variable.
BLOCKS = {
    "S": (
        ("S//a->{0}", 1, ()),
        ("S//b->{0}", 1, ()),
        ("S/r->{0}[./a->{1}]", 2, ("{0}/b", "{0}//*")),
        ("S/r[./a->{0}][./b->{1}]", 2, ()),
        ("S/r->{0}", 1, ("{0}/a", "{0}/b", "{0}/@k")),
    ),
    "J": (
        ("J$..a->{0}", 1, ()),
        ("J$->{0}[.b->{1}]", 2, ("{0}.a",)),
        ("J$[.a->{0}][.b->{1}]", 2, ()),
    ),
}
OPERATORS = ("=", "=", "=", "!=", "<", "<=", ">", ">=")


#: A text, and what may be compared of each block in it.
_Part = tuple[str, list[list[str]]]


@st.composite
def texts(draw: Draw) -> str:
    text, _ = draw(parts(0, draw(st.sampled_from([2, 3, 3, 4]))))
    return text


@st.composite
def parts(draw: Draw, first: int, end: int) -> _Part:
    """Some blocks that are joined, with one more block on the right or on the left."""
    if end - first == 1:
        return draw(blocks(first))
    middle = draw(st.sampled_from([first + 1, end - 1]))
    left, own = draw(parts(first, middle))
    right, others = draw(parts(middle, end))
    if len(others) > 1 or (len(own) > 1 and draw(st.booleans())):
        left, right = (f"({t})" if len(o) > 1 else t for t, o in ((left, own), (right, others)))
    return f"{left} {draw(join(own, others))} {right}", own + others


@st.composite
def blocks(draw: Draw, number: int) -> _Part:
    stream = draw(st.sampled_from(["S", "S", "J"]))
    block, variables, paths = draw(st.sampled_from(BLOCKS[stream]))
    names = [f"{'xyzw'[number]}{k}" for k in range(variables)]
    return block.format(*names), [[*names, *names, *(path.format(*names) for path in paths)]]


@st.composite
def join(draw: Draw, left: list[list[str]], right: list[list[str]]) -> str:
    compared = []
    for _ in range(draw(st.sampled_from([0, 1, 1, 2]))):
        first, second = (draw(st.sampled_from(draw(st.sampled_from(o)))) for o in (left, right))
        compared.append(f"{first} {draw(st.sampled_from(OPERATORS))} {second}")
    kind = draw(st.sampled_from(["FOLLOWED BY", "JOIN", "JOIN"]))
    window = draw(st.sampled_from(["1", "3", "unbounded"]))
    return f"{kind}{{{' AND '.join(compared)}, {window}}}"


@st.composite
def events(draw: Draw, stream: str, time: int) -> Event:
    found = [(name, draw(st.sampled_from(VALUES))) for name in draw(st.sampled_from(["ab", "aab"]))]
    if stream == "J":
        text = json.dumps({"a": [v for n, v in found if n == "a"], "b": found[-1][1]})
        return Event((text,), time, time)
    inside = "".join(f"<{name}>{value}</{name}>" for name, value in found)
    return Event((draw(st.sampled_from([None, "i"])), f'<r k="1">{inside}</r>'), time, time)


@st.composite
def workloads(draw: Draw) -> Workload:
    catalog = Catalog()
    load(STREAMS, catalog)
    queries = tuple(
        compile_query(draw(texts()), catalog, query_id=f"q{number}").query
        for number in range(draw(st.integers(1, 3)))
    )
    given = {
        stream: [draw(events(stream, t)) for t in draw(st.permutations([1, 2, 2, 3, 5]))[:most]]
        for stream, most in (("S", 3), ("J", 2))
    }
    return Workload(dict(catalog.streams), given, queries)
