"""Every error of the language: its code, what the caret stands under, what the message names."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from braid.errors import Origin, QueryError, QueryErrors
from braid.lang import compile_query
from tests.lang.support import catalog, error, pointed_at

#: query, code, what the caret stands under, what message or hint contain
CASES = [
    ("SELECT Name FORM Stock", "E100", "FORM", "did you mean FROM?"),
    ("SELECT Name FROM Stock PUBLISH", "E100", "", "expected a name"),
    ("SELECT Name, FROM Stock", "E100", "FROM", "expected an expression or '*'"),
    ("FROM FILTER{Price > 5 AND} Stock", "E100", "}", "expected an expression"),
    ("SELECT Name AS select FROM Stock", "E100", "select", "write `select` as a name"),
    ("FROM FILTER{Price > 5(Stock)", "E100", "(", "expected an operator or '}'"),
    ("FROM FILTER{Price > 5} (Stock", "E101", "(", "never closed"),
    ("FROM FILTER{(Price > 5} Stock", "E101", "(", "'}' came first"),
    ("FROM FILTER{Price > 5} Stock)", "E101", ")", "has no opening bracket"),
    ("FROM FILTER{Name = 'x} Stock", "E102", "'", "string is not closed"),
    ("SELECT `Name FROM Stock", "E102", "`", "quoted name is not closed"),
    ("SELECT Prise FROM Stock", "E103", "Prise", "did you mean Price?"),
    ("SELECT Foo FROM Stock", "E103", "Foo", "attributes of Stock: Name, Price, Volume"),
    ("SELECT ts FROM Stock", "E103", "ts", "the time of Stock"),
    ("FROM Stock NEXT{Prise > 1} Stock", "E103", "Prise", "$1 has Name, Price, Volume"),
    ("FROM Stock NEXT{$2.Foo > 1} Stock", "E103", "$2.Foo", "Stock has no attribute 'Foo'"),
    ("FROM Stock FOLD{$.x = 1,,} Stock", "E103", "$.x", "the last iteration has no"),
    ("FROM Stock FOLD{,,$.n + 1 AS n} Stock", "E103", "$.n", "before the first iteration"),
    ("FROM (SELECT *, 1 AS c FROM Stock) FOLD{$.c>1,} Stock", "E103", "$.c", "write $1.c"),
    ("SELECT rec.w FROM Wide", "E103", "w", "fields: u, v"),
    ("SELECT Name ? FROM Stock", "E104", "?", "'?' has no meaning"),
    ("SELECT Name FROM Stok", "E105", "Stok", "did you mean Stock?"),
    ("SELECT uper(Name) FROM Stock", "E106", "uper", "did you mean upper?"),
    ("FROM Stock NEXT{Name = 'x'} Stock", "E107", "Name", "$1.Name or $2.Name"),
    ("FROM Stock FOLD{Name = 'x',} Stock", "E107", "Name", "$1.Name, $2.Name, or $.Name"),
    ("SELECT Name, Price AS Name FROM Stock", "E108", "Price AS Name", "'Name' twice"),
    ("SELECT *, Name FROM Stock", "E108", "Name", "'Name' twice"),
    ("FROM Stock NEXT (Stock NEXT Stock)", "E108", "NEXT", "Name_1, Price_1, Volume_1 twice"),
    ("FROM Stock NEXT Stock FOLD{,} Stock", "E108", "FOLD", "Name_1, Price_1, Volume_1 twice"),
    ("FROM Stock FOLD{,,1 AS Price_1} Stock", "E108", "Price_1", "the first event's 'Price'"),
    ("FROM Stock FOLD{,,1 AS a, 2 AS a} Stock", "E108", "a", "'a' twice"),
    ("FROM SAMETIME{max(Price), max(Price)} Stock", "E108", "max(Price)", "AS"),
    ("FROM (SELECT Name FROM Stock) FOLD{,} Stock", "E109", "FOLD", "second: Price, Volume"),
    (
        "FROM (SELECT Name, Volume AS Price, Volume FROM Stock) FOLD{,} Stock",
        "E109",
        "FOLD",
        "BIGINT in the first, DOUBLE in the second",
    ),
    ("FROM FILTER{Price = 'x'} Stock", "E110", "Price = 'x'", "DOUBLE and STRING"),
    ("FROM FILTER{Price} Stock", "E110", "Price", "must be BOOLEAN, not DOUBLE"),
    ("FROM FILTER{Name + 1 > 2} Stock", "E110", "Name + 1", "STRING and BIGINT"),
    ("FROM FILTER{list = list} Wide", "E110", "list = list", "ARRAY<STRING>"),
    ("FROM FILTER{big > 1} Wide", "E110", "big > 1", "more than 18 digits"),
    ("SELECT NULL AS x FROM Stock", "E110", "NULL", "CAST(NULL AS STRING)"),
    ("SELECT upper(Price) AS x FROM Stock", "E110", "Price", "takes STRING here, not DOUBLE"),
    ("SELECT Price || 'x' AS x FROM Stock", "E110", "Price", "|| needs a STRING"),
    ("SELECT CAST(list AS INT) AS x FROM Wide", "E110", "CAST(list AS INT)", "no cast"),
    ("SELECT CASE WHEN b THEN 1 ELSE 'x' END AS y FROM Wide", "E110", "CASE", "BIGINT, STRING"),
    ("SELECT list[i] AS x FROM Wide", "E110", "i", "constant"),
    ("SELECT replace(s, s, 'x') AS x FROM Wide", "E110", "s", "must be a constant"),
    ("SELECT pow(1) AS x FROM Stock", "E111", "pow(1)", "takes 2 arguments, not 1"),
    ("SELECT round() AS x FROM Stock", "E111", "round()", "takes 1 to 2 arguments, not 0"),
    ("SELECT coalesce() AS x FROM Stock", "E111", "coalesce()", "1 or more arguments, not 0"),
    ("SELECT 99999999999999999999 AS x FROM Stock", "E112", "9" * 20, "too large"),
    ("FROM FILTER{at > '2024-13-01'} Wide", "E112", "'2024-13-01'", "TIMESTAMP_NTZ"),
    ("FROM FILTER{regexp_like(s, '(')} Wide", "E112", "'('", "not a regular expression"),
    ("FROM FILTER{DUR < 10 mn} Stock", "E113", "mn", "did you mean min?"),
    ("FROM FILTER{DUR < 2 months} Stock", "E113", "months", "no fixed length"),
    ("FROM FILTER{DUR < 10 min} Tick", "E114", "10 min", "counts ticks"),
    ("FROM FILTER{$2.Price > 1} Stock", "E115", "$2.Price", "only one input"),
    ("FROM Stock NEXT{$.Price > 1} Stock", "E115", "$.Price", "last iteration of FOLD"),
    ("FROM Stock FOLD{$3.Price > 1,} Stock", "E115", "$3.Price", "$1, $2 or $"),
    ("SELECT $1.Price FROM Stock NEXT Stock", "E115", "$1.Price", "Price_1, Price"),
    ("FROM Stock NEXT{$1.$1.Name = 'x'} Stock", "E115", "$1", "do not nest"),
    ("FROM SAMETIME{max(DUR)} Stock", "E115", "DUR", "DUR cannot be used in SAMETIME"),
    ("FROM Stock FOLD{,,$.Price + 1} Stock", "E116", "$.Price + 1", "needs a name"),
    ("FROM FILTER{max(Price) > 5} Stock", "E117", "max(Price)", "use aggregates in SAMETIME"),
    ("FROM SAMETIME{Price} Stock", "E117", "Price", "only aggregates"),
    ("FROM SAMETIME{median(Price)} Stock", "E117", "median", "is not an aggregate"),
    ("FROM SAMETIME{max(DISTINCT Price)} Stock", "E117", "max(DISTINCT Price)", "DISTINCT"),
    ("FROM SAMETIME{ARG_MAX(Price) AS x} Stock", "E117", "ARG_MAX(Price) AS x", "whole event"),
    (
        "FROM Stock NEXT{upper($1.Name || $2.Name) = 'X'} Stock",
        "E118",
        "upper($1.Name || $2.Name) = 'X'",
        "move it to SELECT",
    ),
    ("FROM Stock NEXT{CAST(DUR AS STRING) = 'X'} Stock", "E118", None, "cast"),
    (
        "FROM (SELECT *, Name AS n FROM Stock) FOLD{, upper($.n) = 'X', $2.Name AS n} Stock",
        "E124",
        "upper($.n) = 'X'",
        "above the FOLD",
    ),
    ("FROM Stock UNION IBMStock", "E119", "UNION", "second: IBMPrice DOUBLE"),
    ("FROM Stock NEXT Tick", "E120", "NEXT", "different clocks"),
    ("SELECT CAST(Name AS DUBLE) AS x FROM Stock", "E121", "DUBLE", "did you mean DOUBLE?"),
    ("SELECT CAST(Price AS DECIMAL(50, 2)) AS x FROM Stock", "E121", "DECIMAL(50, 2)", "38"),
    (
        "FROM (SELECT *, 0 AS n FROM Stock) FOLD{,,$.n + $2.Price AS n} Stock",
        "E123",
        "$.n + $2.Price AS n",
        "starts as BIGINT and becomes DOUBLE",
    ),
    ("FROM (FROM Stock PUBLISH A) NEXT (FROM Stock PUBLISH A)", "E132", "A", "twice"),
    ("SELECT * FROM X PUBLISH X", "E133", "X", "X -> X"),
    ("CREATE STREAM Q (a INT)", "E137", "CREATE STREAM Q (a INT)", "not a query"),
    ("FROM Stock; FROM Stock", "E137", "F", "more than one statement"),
    ("", "E138", "", "no query"),
    ("-- nothing", "E138", "-", "no query"),
    ("SELECT Name FROM Stock WHRE Price > 5", "E100", "WHRE", "did you mean WHERE?"),
    ("SELECT Name FROM Stock [Slide 5]", "E100", "Slide", "expected NOW, PARTITION, RANGE or ROWS"),
    ("SELECT Name FROM Stock NXT{Price > 5} Stock", "E100", "NXT", "did you mean NEXT?"),
    ("Select Prise From Stock S, IBMStock T", "E103", "Prise", "S has Name, Price, Volume; T has"),
    ("Select S.Prise From Stock S, Stock T", "E103", "Prise", "did you mean Price?"),
    ("Select S.ts From Stock S", "E103", "ts", "the time of Stock"),
    ("Select * From Stock [Partition By Nam Rows 5]", "E103", "Nam", "did you mean Name?"),
    ("Select Price From Stock S, Stock T", "E107", "Price", "write S.Price or T.Price"),
    ("Select S.Name, T.Name From Stock S, Stock T", "E108", "T.Name", "'Name' twice"),
    ("Select S.*, T.* From Stock S, Stock T", "E108", "T.*", "'Name' twice"),
    ("Select count(*) From Wide Group By list", "E110", "list", "GROUP BY cannot compare"),
    ("Select distinct rec From Wide", "E110", "rec", "DISTINCT cannot compare"),
    ("Select * From Wide [Partition By map Rows 2]", "E110", "map", "PARTITION BY cannot"),
    ("Select * From Stock Where Price", "E110", "Price", "must be BOOLEAN"),
    ("Select sum(Name) From Stock [Rows 5]", "E110", "Name", "takes a number"),
    ("Select * From Tick [Range 10 minutes]", "E114", "10 minutes", "counts ticks"),
    ("Select DUR From Stock [Rows 5]", "E115", "DUR", "no duration"),
    ("Select * From Stock Where $1.Price > 5", "E115", "$1.Price", "only in patterns"),
    ("Select max(sum(Price)) From Stock", "E117", "sum(Price)", "inside another aggregate"),
    ("Select Name From Stock Where count(*) > 1", "E117", "count(*)", "in HAVING"),
    ("Select 1 As x From Stock Group By max(Price)", "E117", "max(Price)", "GROUP BY"),
    ("Select max_by(Name, Price) From Stock", "E117", "max_by", "SAMETIME only"),
    ("Select sum(distinct Price) From Stock", "E117", "sum(distinct Price)", "no DISTINCT"),
    ("Select * From Stock S, Tick T", "E120", "Tick", "different clocks"),
    ("Istream(Select * From Stock PUBLISH A) PUBLISH B", "E132", "B", "twice"),
    ("Select X.Price From Stock S", "E174", "X", "inputs: S"),
    ("Select Stock.Price From Stock S", "E174", "Stock", "inputs: S"),
    ("Select X.* From Stock S", "E174", "X", "inputs: S"),
    ("Select * From Stock [Partition By X.Name Rows 5] S", "E174", "X", "inputs: S"),
    ("Select Name, count(*) From Stock", "E175", "Name", "neither in GROUP BY nor"),
    ("Select Price From Stock Group By Name", "E175", "Price", "add it to GROUP BY"),
    ("Select Name From Stock Group By Name Having Price > 5", "E175", "Price", "aggregate it"),
    ("Select * From Stock Group By Name", "E175", "*", "not allowed with GROUP BY"),
    ("Select 1 As x From Stock Having 1 > 0", "E175", "1 > 0", "needs GROUP BY or an aggregate"),
    (
        "Select * From (Select Name From Stock Where Price > 5) [Rows 5]",
        "E176",
        None,
        "is a relation and can't have a window",
    ),
    ("Select * From (Stock [Rows 3]) [Rows 5]", "E176", "Stock", "a relation"),
    ("Select * From Stock [Rows 0]", "E177", "0", "at least one row"),
    ("Select * From Stock [Rows -5]", "E177", "-5", "at least one row"),
    ("Select * From Stock [Rows 1.5]", "E177", "1.5", "not a length"),
    ("Select * From Stock [Rows 50,00]", "E177", "50,00", "three digits"),
    ("Select * From Stock [Range -1 s]", "E177", "-1", "negative"),
    ("Select * From Tick [Range -1]", "E177", "-1", "negative"),
    ("Select * From Stock [Rows 2], Stock [Rows 3]", "E178", "Stock", "own name"),
    ("Select * From Stock S, Tick As S", "E178", "S", "two inputs of FROM have the name 'S'"),
    ("Dstream(Istream(Select * From Stock))", "E179", "Dstream", "Istream already makes a stream"),
    ("Istream(Select Rstream(*) From Stock)", "E179", "Istream", "takes a relation"),
    ("CREATE QUERY q FOR EACH (w STRING) AS FROM Stock", "E164", "q", "needs rows"),
    ("FROM FILTER{Name = :who} Stock", "E160", ":who", "FOR EACH (who STRING)"),
    ("S//book->x1[./author->x2] FOLLOWED BY{x2=x5, 1 day} S//b->x4", "E105", "S", "no stream"),
    ("FROM Stock JOIN{x = y, 1 day} Stock", "E224", "x", "no variable 'x'"),
    (
        "CREATE VIEW v AS SELECT * FROM Stock",
        "E137",
        "CREATE VIEW v AS SELECT * FROM Stock",
        "not a",
    ),
]


@pytest.mark.parametrize(("text", "code", "under", "words"), CASES, ids=[c[0] for c in CASES])
def test_error(text: str, code: str, under: str | None, words: str) -> None:
    problem = error(text)
    assert problem.code == code, problem.render()
    if under is not None:
        shown = pointed_at(problem)
        assert shown.startswith(under) if under == "CASE" else shown == under
    assert words in f"{problem.message} {problem.hint}"


def test_rendering_as_designed() -> None:
    text = "SELECT *\nFROM\n  FILTER{Volume > 10000 AND Prise > 5}(Stock)"
    origin = Origin("rules.cel", "rebound", line=12)
    with pytest.raises(QueryError) as caught:
        compile_query(text, catalog(), query_id="rebound", origin=origin)
    assert caught.value.render() == (
        "error[E103] in query 'rebound' (rules.cel:14:29): Stock has no attribute 'Prise'\n"
        "  14 |   FILTER{Volume > 10000 AND Prise > 5}(Stock)\n"
        "     |                             ^^^^^ "
        "did you mean Price? attributes of Stock: Name, Price, Volume"
    )


def test_all_errors_of_a_query_are_shown() -> None:
    problem = error("SELECT Nme, Prce FROM Stock")
    assert isinstance(problem, QueryErrors)
    assert [pointed_at(e) for e in problem.errors] == ["Nme", "Prce"]
    problem = error("FROM FILTER{Nme = 'x' AND Prce > 1} Stock NEXT{$1.a = $2.b} Stok")
    assert isinstance(problem, QueryErrors)
    assert [pointed_at(e) for e in problem.errors] == ["Nme", "Prce", "Stok"]


def test_the_query_is_named() -> None:
    text = "CREATE QUERY low AS SELECT Prise FROM Stock"
    assert "in query 'low'" in error(text).render()


def test_errors_survive_pickling() -> None:
    problem = error("SELECT Prise FROM Stock")
    assert pickle.loads(pickle.dumps(problem)).render() == problem.render()


def test_every_code_is_tested() -> None:
    root = Path(__file__).parents[2]
    sources = [*(root / "src/braid/lang").rglob("*.py"), *(root / "src/braid/algebra").glob("*.py")]
    used = {c for p in sources for c in re.findall(r'"([EW]\d{3})"', p.read_text("utf-8"))}
    tests = [p.read_text("utf-8") for p in Path(__file__).parent.rglob("test_*.py")]
    tested = {code for text in tests for code in re.findall(r"\b[EW]\d{3}\b", text)}
    assert used <= tested
