"""Random documents and queries over them: small alphabets, so that things meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hypothesis import strategies as st

from braid.algebra.queries import Query
from braid.lang.catalog.catalog import Catalog
from braid.lang.catalog.compile import compile_query
from braid.lang.catalog.load import load
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


class Joined(Protocol):
    """What a join asks of a block."""

    variables: list[str]
    text: str

    def paths(self) -> st.SearchStrategy[str]:
        """Paths that may stand behind a variable of it."""
        ...


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

    def paths(self) -> st.SearchStrategy[str]:
        return st.sampled_from(["", "", "", "/b", "//b"])

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
    """One block, or up to four that are joined."""
    count = draw(st.sampled_from([1, 2, 2, 2, 2, 3]))
    blocks = [Block(draw, draw(st.sampled_from(["S", "S", "T"])), "xyzw"[n]) for n in range(count)]
    text = blocks[0].text
    for number in range(1, count):
        text += f" {draw(joins(blocks, number))} {blocks[number].text}"
    return text


@st.composite
def joins(draw: Draw, blocks: Sequence[Joined], number: int) -> str:
    """The join of a block with those before it; mostly it compares values of its own."""
    operators = st.sampled_from(["=", "=", "=", "=", "!=", "<", ">="])
    compared = []
    for _ in range(draw(st.integers(0, 3 if number == 1 else 2))):
        second = number if number == 1 or draw(st.integers(0, 4)) else number - 1
        first = blocks[draw(st.integers(0, second - 1))]
        left = draw(st.sampled_from(first.variables)) + draw(first.paths())
        compared.append(
            f"{left} {draw(operators)} {draw(st.sampled_from(blocks[second].variables))}"
        )
    kind = draw(st.sampled_from(["FOLLOWED BY", "JOIN"]))
    window = draw(st.sampled_from(["0", "1", "3", "unbounded"] if number == 1 else ["1", "3", "9"]))
    return f"{kind}{{{' AND '.join(compared)}, {window}}}"


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
