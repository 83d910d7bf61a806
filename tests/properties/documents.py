"""Random documents and queries over them: small alphabets, so that things meet."""

from __future__ import annotations

from hypothesis import strategies as st

from braid.algebra.queries import Query
from braid.lang.catalog import Catalog
from braid.lang.compile import compile_query
from braid.lang.load import load
from braid.reference import Event
from tests.properties.expressions import Draw
from tests.properties.plans import Workload

STREAMS = """
CREATE STREAM S (doc XML, t BIGINT) TIME t;
CREATE STREAM T (id STRING, doc XML, t BIGINT) TIME t;
"""
NAMES = ("a", "b")
VALUES = ("1", "1", "2", "2.0", "x")


@st.composite
def elements(draw: Draw, depth: int) -> str:
    name = draw(st.sampled_from(NAMES))
    attribute = draw(st.sampled_from(["", "", ' k="1"', ' k="x" b="2"']))
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return f"<{name}{attribute}>{draw(st.sampled_from(VALUES))}</{name}>"
    below = draw(st.lists(elements(depth - 1), min_size=2, max_size=3))
    text = draw(st.sampled_from(["", "", "1"]))
    return f"<{name}{attribute}>{text}{''.join(below)}</{name}>"


class Block:
    """The text of a block, and the variables that it binds."""

    def __init__(self, draw: Draw, stream: str, prefix: str) -> None:
        self._draw = draw
        self._prefix = prefix
        self.variables: list[str] = []
        steps = draw(st.integers(1, 2))
        self.text = stream + "".join(
            self._axis() + self._step(2, named=k == steps - 1) for k in range(steps)
        )
        if not self.variables:
            self.variables.append(f"{prefix}r")
            self.text += f" AS {prefix}r"

    def _axis(self) -> str:
        return self._draw(st.sampled_from(["/", "//", "//", "//"]))

    def _step(self, depth: int, *, named: bool = False) -> str:
        draw = self._draw
        attribute = depth < 2 and draw(st.integers(0, 5)) == 0
        name = draw(st.sampled_from(["k", "b"] if attribute else [*NAMES, "b", "*"]))
        text = f"@{name}" if attribute else name
        if draw(st.booleans()) or named:
            variable = f"{self._prefix}{len(self.variables)}"
            self.variables.append(variable)
            text += f"->{variable}"
        if depth and not attribute:
            for _ in range(draw(st.integers(0, 2))):
                text += f"[{self._predicate(depth - 1)}]"
        return text

    def _predicate(self, depth: int) -> str:
        draw = self._draw
        kind = draw(st.integers(0, 9))
        if kind == 0:
            return f". {self._comparison()}"
        text = draw(st.sampled_from(["./", ".//"])) + self._step(depth)
        if kind == 1:
            text += self._axis() + self._step(0)
        return f"{text} {self._comparison()}" if kind == 2 else text

    def _comparison(self) -> str:
        draw = self._draw
        if draw(st.booleans()):
            return f"{draw(st.sampled_from(['=', '!=']))} '{draw(st.sampled_from(VALUES))}'"
        return f"{draw(st.sampled_from(['=', '!=', '<', '>=']))} {draw(st.integers(0, 2))}"


@st.composite
def texts(draw: Draw) -> str:
    first = Block(draw, draw(st.sampled_from(["S", "S", "T"])), "x")
    if draw(st.integers(0, 4)) == 0:
        return first.text
    second = Block(draw, draw(st.sampled_from(["S", "S", "T"])), "y")
    operators = st.sampled_from(["=", "=", "=", "=", "!=", "<", ">="])
    joins = [
        f"{draw(st.sampled_from(first.variables))}{draw(paths())} {draw(operators)} "
        f"{draw(st.sampled_from(second.variables))}"
        for _ in range(draw(st.integers(0, 3)))
    ]
    kind = draw(st.sampled_from(["FOLLOWED BY", "JOIN"]))
    window = draw(st.sampled_from(["0", "1", "3", "unbounded"]))
    return f"{first.text} {kind}{{{' AND '.join(joins)}, {window}}} {second.text}"


def paths() -> st.SearchStrategy[str]:
    return st.sampled_from(["", "", "", "/b", "//b"])


@st.composite
def workloads(draw: Draw) -> Workload:
    catalog = Catalog()
    load(STREAMS, catalog)
    queries: list[Query] = []
    for number in range(draw(st.integers(1, 4))):
        text = draw(texts())
        try:
            made = compile_query(text, catalog, query_id=f"q{number}")
        except Exception as error:
            if "E221" in str(error):  # a path below an attribute
                continue
            raise
        queries.append(made.query)
    documents = elements(2)
    times = st.integers(0, 4)
    events = {
        "S": [
            Event((draw(documents),), t, t) for t in draw(st.lists(times, min_size=1, max_size=4))
        ],
        "T": [
            Event((draw(st.sampled_from([None, "i", "j"])), draw(documents)), t, t)
            for t in draw(st.lists(times, max_size=2))
        ],
    }
    return Workload(dict(catalog.streams), events, tuple(queries))
