"""Input that nobody means: an error or an answer, never a crash, and never for long."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from braid.errors import BraidError
from braid.lang import Catalog, compile_query, load
from tests.lang.support import catalog, error
from tests.lang.test_printed_examples import EXAMPLE_19

DEEP = {
    "parentheses": lambda n: f"FROM FILTER{{{'(' * n}Price > 1{')' * n}}} Stock",
    "not": lambda n: f"FROM FILTER{{{'NOT ' * n}TRUE}} Stock",
    "sum": lambda n: f"SELECT {'1 + ' * n}1 AS x FROM Stock",
    "minus": lambda n: f"SELECT {'- ' * n}Price AS x FROM Stock",
    "calls": lambda n: f"SELECT {'abs(' * n}Price{')' * n} AS x FROM Stock",
    "nullif": lambda n: f"SELECT {'nullif(' * n}Price{', 1)' * n} AS x FROM Stock",
    "case": lambda n: f"SELECT {'CASE WHEN TRUE THEN ' * n}1{' END' * n} AS x FROM Stock",
    "in": lambda n: f"FROM FILTER{{{'(' * n}TRUE{' IN (TRUE, Price > 1))' * n}}} Stock",
    "filters": lambda n: f"FROM {'FILTER{Price > 1}' * n} Stock",
    "streams": lambda n: f"FROM {'(' * n}Stock{')' * n}",
    "queries": lambda n: f"FROM {'(SELECT * FROM ' * n}Stock{')' * n}",
    "unions": lambda n: f"FROM Stock{' UNION Stock' * n}",
    "types": lambda n: f"SELECT CAST(1 AS {'ARRAY<' * n}INT{'>' * n}) AS x FROM Stock",
    "open": lambda n: f"FROM {'(' * n}",
}


def outcome(text: str) -> str | None:
    """The code of the error that a text gives; None if it compiles."""
    try:
        compile_query(text, catalog())
    except BraidError as problem:
        return problem.code
    return None


@pytest.mark.parametrize("levels", [20, 200, 3000])
@pytest.mark.parametrize("shape", DEEP)
def test_deep_nesting(shape: str, levels: int) -> None:
    began = time.process_time()
    assert outcome(DEEP[shape](levels)) in {None, "E100", "E101", "E110", "E122"}
    assert time.process_time() - began < 20


def test_reasonable_nesting_works() -> None:
    for shape in ("parentheses", "not", "sum", "filters", "queries", "unions", "calls", "case"):
        compile_query(DEEP[shape](40), catalog())


def test_too_deep_is_said() -> None:
    assert error(DEEP["sum"](500)).code == "E122"


def test_long_but_flat_is_fine() -> None:
    compile_query(f"FROM FILTER{{{' AND '.join(['Price > 1'] * 2000)}}} Stock", catalog())
    choices = ", ".join(str(n) for n in range(5000))
    compile_query(f"FROM FILTER{{Volume IN ({choices})}} Stock", catalog())


@pytest.mark.parametrize(
    "text",
    ["\0", "\ufeffSELECT", "SELECT", ";", "'", '"', "`", "``", "$", "$1", "$1.", "{}", ")", "}",
     "SELECT * FROM", "FROM FROM", "CREATE", "CREATE STREAM", "DROP QUERY", "NEXT", "--", "≥", "💥",
     "SELECT 'a\nb' FROM Stock", "\r\n\t", "FROM Stock PUBLISH 'x'", "SELECT 1.2.3 FROM Stock",
     "FROM FILTER{} Stock", "FROM SAMETIME{} Stock", "FROM FOLD{,,} Stock", "SELECT * * FROM Stock"],
)  # fmt: skip
def test_fragments(text: str) -> None:
    assert error(text).code.startswith("E1")


def test_mutilated_queries_never_crash() -> None:
    known = catalog()
    dice = random.Random(7)
    for _ in range(600):
        text = EXAMPLE_19
        for _ in range(dice.randrange(1, 4)):
            at = dice.randrange(len(text))
            cut = dice.randrange(0, 8)
            text = (
                text[:at]
                + dice.choice(["", "(", ")", "{", "}", "'", ",", " $ ", ";", "\n", "1"])
                + text[at + cut :]
            )
        with suppress(BraidError):
            compile_query(text, known)
        with suppress(BraidError):
            load(text, known.copy(), name="x.cel")


def test_thousand_queries_compile_in_seconds() -> None:
    known = catalog()
    compile_query(EXAMPLE_19, known)
    began = time.process_time()
    for number in range(1000):
        compile_query(EXAMPLE_19.replace("10000", str(number)), known)
    assert time.process_time() - began < 6


def test_the_grammar_is_not_built_at_import() -> None:
    code = "import braid.lang.parse.parser as p; assert p._parser.cache_info().currsize == 0"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_fresh_catalog_says_that_there_is_nothing() -> None:
    with pytest.raises(BraidError, match="streams: none"):
        compile_query("FROM Stock", Catalog())
