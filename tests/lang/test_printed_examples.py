"""Every query printed in chapters 4.2 and 4.3 of the dissertation, as printed, with its schema."""

from __future__ import annotations

import pytest

from braid.algebra.nodes import Iterate, Project, Read, Select, Sequence
from tests.lang.support import compiled, error, names, node, pointed_at

EXAMPLES = {
    "11": ("SELECT *\nFROM Stock\nPUBLISH MyStock", ("Name", "Price", "Volume")),
    "12": (
        """SELECT Price AS IBMPrice
FROM FILTER{Name= 'IBM' AND Price > 83}(Stock)
PUBLISH IBMStock""",
        ("IBMPrice",),
    ),
    "13": (
        """SELECT Price AS IBMPrice
FROM FILTER{Name='IBM'}
      (SELECT *
      FROM FILTER{Price > 83}(Stock))
PUBLISH IBMStock2""",
        ("IBMPrice",),
    ),
    "14": (
        "SELECT IBMPrice, Price AS MSFTPrice\nFROM IBMStock\nNEXT{Name='MSFT'} (Stock)",
        ("IBMPrice", "MSFTPrice"),
    ),
    "15": (
        "SELECT IBMPrice, Price, Name\nFROM IBMStock\nNEXT{IBMPrice < Price} (Stock)",
        ("IBMPrice", "Price", "Name"),
    ),
    "16": (
        "SELECT Name\nFROM (SELECT Price FROM Stock)\nNEXT{$1.Price = $2.Price} (Stock)",
        ("Name",),
    ),
    "17": (
        """SELECT *
FROM FILTER{cnt > 10} (
  (SELECT *, 1 AS cnt FROM
    FILTER{Volume > 10000}(Stock))
  FOLD{$2.Name = $.Name, $2.Price > $.Price,
    $.cnt+1 AS cnt}
  Stock)""",
        ("Name_1", "Price_1", "Volume_1", "cnt", "Name", "Price", "Volume"),
    ),
    "18": (
        """SELECT Price_1 AS IBMPrice1, Price AS IBMPrice2
FROM (FILTER{Name='IBM' AND Price > 83}(Stock))
      NEXT{$2.Price > $1.Price}
(FILTER{Name='IBM'}(Stock))""",
        ("IBMPrice1", "IBMPrice2"),
    ),
    "figure 4.1": (
        "SELECT Name FROM (SELECT Name AS N FROM Stock) NEXT{$1.N = $2.Name} Stock",
        ("Name",),
    ),
}

EXAMPLE_19_AS_PRINTED = """SELECT Name, MaxPrice, MinPrice, Price AS FinalPrice
FROM
  FILTER{DUR ≥ 10min} (
    (SELECT Name, Price_1 AS MaxPrice, Price AS MinPrice
FROM FILTER{Volume > 10000}(Stock)
  FOLD{$2.Name = $.Name, $2.Price < $.Price, }
Stock)
  NEXT{$2.Name = $1.Name AND
    $2.Price > 1.05*$1.MinPrice}
Stock"""

EXAMPLE_19 = EXAMPLE_19_AS_PRINTED.replace("Stock)\n  NEXT", "Stock))\n  NEXT")


@pytest.mark.parametrize("example", EXAMPLES)
def test_printed_queries_have_their_schema(example: str) -> None:
    text, schema = EXAMPLES[example]
    assert names(text) == schema


def test_example_12_selects_then_projects() -> None:
    project = node(EXAMPLES["12"][0])
    assert isinstance(project, Project)
    assert isinstance(project.input, Select)
    assert isinstance(project.input.input, Read)
    assert compiled(EXAMPLES["12"][0].replace("IBMStock", "X")).query.publishes == ("X",)


def test_example_19_with_its_parenthesis() -> None:
    assert names(EXAMPLE_19) == ("Name", "MaxPrice", "MinPrice", "FinalPrice")
    project = node(EXAMPLE_19)
    assert isinstance(project, Project)
    sequence = project.input
    assert isinstance(sequence, Sequence)
    assert sequence.names[:3] == ("Name_1", "MaxPrice_1", "MinPrice_1")
    assert isinstance(sequence.first, Select)
    inner = sequence.first.input
    assert isinstance(inner, Project)
    assert isinstance(inner.input, Iterate)


def test_example_19_as_printed_points_at_the_open_parenthesis() -> None:
    problem = error(EXAMPLE_19_AS_PRINTED)
    assert problem.code == "E101"
    assert pointed_at(problem) == "("
    assert "(3:23)" in problem.render()


@pytest.mark.parametrize("text", [text for text, _ in EXAMPLES.values()])
def test_keywords_are_case_insensitive(text: str) -> None:
    lower = text
    for word in ("SELECT", "FROM", "FILTER", "NEXT", "FOLD", "PUBLISH", "AND", " AS "):
        lower = lower.replace(word, word.lower())
    assert names(lower) == names(text)
