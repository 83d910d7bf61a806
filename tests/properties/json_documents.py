"""Random JSON documents, and queries over them and over XML documents."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import strategies as st

from braid.lang.catalog.catalog import Catalog
from braid.lang.catalog.compile import compile_query
from braid.lang.catalog.load import load
from braid.reference import Event
from tests.properties import documents
from tests.properties.expressions import Draw
from tests.properties.plans import Workload

STREAMS = """
CREATE STREAM J (doc JSON, t BIGINT) TIME t;
CREATE STREAM K (id STRING, doc JSON, t BIGINT) TIME t;
CREATE STREAM S (doc XML, t BIGINT) TIME t;
"""
#: Texts of scalars; the common ones are one value in other words, so that documents meet.
COMMON = ("1", '"1"', "1.0", "10e-1", '"\\u0031"', "2")
RARE = ("2.50", '"2.0"', "true", "false", "null", "-0", "0.0", '"é\\n\\"<"', '""')
NAMES = ("a", "b")
RARE_NAMES = ("item", "é'", "$")
CONSTANTS = ("'1'", "'x'", "'true'", "''", "'2.5'", "1", "2", "0")


def rarely(draw: Draw, common: Sequence[str], rare: Sequence[str]) -> str:
    return draw(st.sampled_from(rare if draw(st.integers(0, 5)) == 5 else common))


@st.composite
def values(draw: Draw, depth: int) -> str:
    kinds = ["object", "object", "array", *(() if depth == 2 else ("scalar", "scalar"))]
    kind = draw(st.sampled_from(kinds)) if depth else "scalar"
    if kind == "scalar":
        return rarely(draw, COMMON, RARE)
    least = draw(st.sampled_from([2, 2, 2, 0]))
    below = draw(st.lists(values(depth - 1), min_size=least, max_size=3))
    space = draw(st.sampled_from(["", " ", "\n"]))
    if kind == "array":
        return f"[{space}{','.join(below)}]"
    return f"{{{space}{','.join(f'{_name(draw)}:{space}{value}' for value in below)}}}"


def _name(draw: Draw) -> str:
    return json.dumps(rarely(draw, NAMES, RARE_NAMES), ensure_ascii=draw(st.booleans()))


class Block:
    """The text of a block in JSONPath, and the variables that it binds."""

    def __init__(self, draw: Draw, stream: str, prefix: str) -> None:
        self._draw = draw
        self._prefix = prefix
        self.variables: list[str] = []
        self.text = f"{stream}$" + (self._about(1) if draw(st.integers(0, 4)) == 4 else "")
        for number in range(draw(st.sampled_from([1, 1, 1, 1, 2, 0]))):
            self.text += self._step(2 - number)
        if not self.variables:
            self.text += f" AS {prefix}r"
            self.variables.append(f"{prefix}r")

    def paths(self) -> st.SearchStrategy[str]:
        return st.sampled_from(["", "", "", "", ".b", "..a"])

    def _step(self, depth: int) -> str:
        return member(self._draw) + self._about(depth)

    def _about(self, depth: int) -> str:
        draw, text = self._draw, ""
        if draw(st.booleans()):
            self.variables.append(f"{self._prefix}{len(self.variables)}")
            text = f"->{self.variables[-1]}"
        if depth:
            for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
                text += f"[{self._predicate(depth - 1)}]"
        return text

    def _predicate(self, depth: int) -> str:
        draw = self._draw
        kind = draw(st.integers(0, 9))
        if kind == 9:
            return f". {comparison(draw)}"
        text = member(draw, dotted=True) + self._about(depth)
        if kind == 8:
            text += self._step(0)
        return f"{text} {comparison(draw)}" if kind == 7 else text


def member(draw: Draw, *, dotted: bool = False) -> str:
    """One step: `.name`, `..name`, brackets where a name needs them, and sometimes else."""
    name = rarely(draw, (*NAMES, "*"), RARE_NAMES)
    dots = draw(st.sampled_from(["..", "..", "."]))
    if name in ("a", "b", "item", "*") and (name == "*" or draw(st.booleans())):
        return dots + name
    quoted = name.replace("'", "''")
    return f"{'' if dots == '.' and not dotted else dots}['{quoted}']"


def comparison(draw: Draw) -> str:
    constant = draw(st.sampled_from(CONSTANTS))
    operators = ["=", "!="] if constant[0] == "'" else ["=", "!=", "<", ">="]
    return f"{draw(st.sampled_from(operators))} {constant}"


@st.composite
def texts(draw: Draw) -> str:
    """One block, or up to four that are joined; one of them may be over XML."""
    count = draw(st.sampled_from([1, 2, 2, 2, 2, 3]))
    streams = ["J", *(draw(st.sampled_from(["J", "J", "K", "S"])) for _ in range(1, count))]
    streams = draw(st.permutations(streams))
    blocks = [
        (documents.Block if stream == "S" else Block)(draw, stream, "xyzw"[number])
        for number, stream in enumerate(streams)
    ]
    text = blocks[0].text
    for number in range(1, count):
        text += f" {draw(documents.joins(blocks, number))} {blocks[number].text}"
    return text


@st.composite
def workloads(draw: Draw) -> Workload:
    catalog = Catalog()
    load(STREAMS, catalog)
    queries = []
    for number in range(draw(st.integers(1, 4))):
        try:
            made = compile_query(draw(texts()), catalog, query_id=f"q{number}")
        except Exception as error:
            if "E221" in str(error):  # a path below an attribute
                continue
            raise
        queries.append(made.query)
    times = st.permutations([1, 2, 3, 3, 4])
    read = values(2)
    ids = st.sampled_from([None, "i", "j"])
    events = {
        "J": [Event((draw(read),), t, t) for t in draw(times)[: draw(st.integers(2, 4))]],
        "K": [Event((draw(ids), draw(read)), t, t) for t in draw(times)[: draw(st.integers(1, 2))]],
        "S": [
            Event((draw(documents.elements(2)),), t, t)
            for t in draw(times)[: draw(st.integers(1, 2))]
        ],
    }
    return Workload(dict(catalog.streams), events, tuple(queries))
