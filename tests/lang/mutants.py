"""Texts of the tests and docs, and what random changes make of them."""

from __future__ import annotations

import random
import re
from pathlib import Path

from braid.errors import BraidError, QueryError, QueryErrors
from braid.lang import Catalog, compile_query, load

ROOT = Path(__file__).parents[2]

STREAMS = """
CREATE STREAM Stock (Name STRING, Price DOUBLE, Volume BIGINT, ts TIMESTAMP) TIME ts;
CREATE STREAM Tick (Name STRING, n INT, t BIGINT) TIME t;
CREATE STREAM S (doc XML, ts TIMESTAMP) TIME ts;
CREATE STREAM J (doc JSON, ts TIMESTAMP) TIME ts;
"""
#: One for each part of the language; those of the docs and scenarios come in addition.
OWN = """
FROM Stock FOLD{$2.Name = $.Name, $2.Price < $.Price, $.n + 1 AS n} Stock
SELECT *, 0 AS n FROM FILTER{Volume > 10000}(Stock)
FROM FILTER{Price BETWEEN 1 AND 2 OR Name LIKE 'a%' AND NOT Volume IN (1, 2, 3)} Stock
SELECT CASE WHEN Price > 1 THEN 'a' ELSE "b" END AS x, CAST(Price AS DECIMAL(10, 2)) AS y FROM Stock
SELECT a.Name, count(*) AS n FROM Stock [Rows 50,000] a, Stock [Range 10 minutes] AS b WHERE a.Name = b.Name GROUP BY a.Name HAVING count(*) > 2
Istream(Select distinct Name From Stock [Partition By Name Rows 5]) PUBLISH Distinct
DETECT F FROM Stock [Rows 9] AS a, Stock [Range 1 h] AS b WHERE a.Name = b.Name BATCH 100 WITHIN 5 s MEMORY 4 MB
S//book->x1[./author->x2][./title = 'x'] FOLLOWED BY{x2=x5 AND x2 = 5, 1 day} S//blog->x4[./author->x5]
J$.book->x1[.author->x2 > 5] JOIN{x1=x3, 10 min} J$..blog->x3['a']
CREATE QUERY big FOR EACH (who STRING, floor DOUBLE, w INTERVAL) AS FROM FILTER{Name = :who AND Price > :floor} Stock NEXT{DUR <= :w} Stock PUBLISH Big
CREATE CONSTRAINT c ON Stock (Name) REFERENCES Tick (Name) WITHIN 10 MINUTES
CREATE STREAM X (a INT, b ARRAY<STRUCT<u: INT, v: STRING>>, ts TIMESTAMP) TIME ts LATENESS 10 SECONDS SEQUENCE a
CREATE VIEW v (a, b) AS SELECT Name, Price FROM Stock [Now]
DROP QUERY q
FROM SAMETIME{ARG_MAX(Volume), sum(Price) AS s} Stock UNION Stock
SELECT * FROM Stock LEFT JOIN Tick ON Stock.Name = Tick.Name
"""

#: What is put in: parts of the language, what is none, and large things.
PIECES = [
    *"(){}[],;.:$'\"`\\#|@*/-+<>=\n\0é²٣😀",
    " AND ", " OR ", " NOT ", " FROM ", " SELECT ", " JOIN ", " ON ", " CASE ", " END ", " NULL ",
    " PUBLISH x", "--", "->", "//", "..", "$1.", ":p", "[Rows ", "FILTER{", "FOLD{,,}", "1e999",
    "9" * 25, "9" * 5000, "1e" + "9" * 30, "(" * 150, "[./a" * 150, "NOT " * 1200, " week", "''",
]  # fmt: skip


def texts() -> list[str]:
    """Every text of the language in the docs and the scenarios, and those of this file."""
    found = [line for line in OWN.splitlines() if line.strip()] * 8
    for page in sorted((ROOT / "docs").glob("*.md")):
        blocks = re.findall(r"```sql\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
        found += [part for block in blocks for part in block.split(";")]
    for scenario in sorted((ROOT / "tests" / "scenarios").glob("*.test")):
        found += re.split(r"\n\s*\n", scenario.read_text("utf-8"))
    return [text.strip() for text in found if 5 < len(text.strip()) < 2_000]


#: Numbers that are too large for something.
_NUMBERS = ["9" * 20, "9" * 25, "9" * 5000, "1e999", "1e" + "9" * 30, "0", "1.5", str(2**63 - 1)]
_TOKEN = re.compile(r"\d+|\w+|\s+|'[^'\n]*'|.", re.DOTALL)


def mutant(dice: random.Random, known: list[str]) -> str:
    """A text with a few changes: of its characters, or of its tokens so that more of it is right."""
    text = dice.choice(known)
    change = _changed_tokens if dice.random() < 0.7 else _changed_characters
    for _ in range(dice.randrange(1, 4)):
        text = change(dice, text, dice.choice(known))
    return text


def _changed_tokens(dice: random.Random, text: str, other: str) -> str:
    tokens = _TOKEN.findall(text) or [" "]
    at = dice.randrange(len(tokens))
    match dice.randrange(6):
        case 0:
            del tokens[at]
        case 1:
            tokens[at] = dice.choice(_TOKEN.findall(other))
        case 2:
            tokens.insert(at, dice.choice(PIECES))
        case 3:
            there = dice.randrange(len(tokens))
            tokens[at], tokens[there] = tokens[there], tokens[at]
        case 4:
            tokens[at : at + 4] *= dice.choice([2, 200])
        case _:
            numbers = [n for n, token in enumerate(tokens) if token.isdecimal()]
            tokens[dice.choice(numbers or [at])] = dice.choice(_NUMBERS)
    return "".join(tokens)


def _changed_characters(dice: random.Random, text: str, other: str) -> str:
    at, size = dice.randrange(len(text) + 1), dice.randrange(1, 12)
    there = dice.randrange(len(other))
    match dice.randrange(4):
        case 0:
            return text[:at] + dice.choice(PIECES) + text[at:]
        case 1:
            return text[:at] + text[at + size :]
        case 2:
            return text[:at] + text[at : at + size] * dice.choice([2, 3, 200]) + text[at:]
        case _:
            return text[:at] + other[there : there + 4 * size] + text[at + size :]


def catalog() -> Catalog:
    known = Catalog()
    load(STREAMS, known)
    return known


def bound(text: str, known: Catalog) -> bool:
    """Whether a text is right as it is."""
    try:
        load(text, known.copy())
    except BraidError:
        return False
    return True


def wrong_with(text: str, known: Catalog) -> str | None:
    """What an outcome has that it must not have; None for success, or errors with code and place."""
    for run in (compile_query, load):
        try:
            run(text, known.copy() if run is load else known)
        except BraidError as error:
            each = error.errors if isinstance(error, QueryErrors) else (error,)
            for one in each:
                if not isinstance(one, QueryError):
                    return f"{one!r} has no place"
                if one.code != "E128" and (
                    one.span is None or not re.fullmatch(r"E\d{3}", one.code)
                ):
                    return f"{one!r} has no place"
            if len(str(error)) > 2_000 * len(each):
                return f"an error of {len(str(error))} characters"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None
