"""How a selection finds the predicates that an event satisfies, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from braid.operators.core.family import Detail
from braid.operators.core.wording import counted, some
from braid.operators.select.spec import SelectionSpec


def selection_lines(spec: SelectionSpec, found: Detail, unit: str) -> Iterator[str]:
    yield index_line(found)


def selection_box(spec: SelectionSpec, found: Detail, unit: str) -> Iterator[str]:
    yield f"index: {found.get('form', '?')}"
    yield counted(int(found.get("clauses", 0)), "clause")


def index_line(found: Detail) -> str:
    """How the predicates are found that an event satisfies."""
    clauses = counted(int(found.get("clauses", 0)), "clause")
    shown = f"index: {'; '.join((index_form(found), *_access_parts(found), clauses))}"
    compiled = int(found.get("compiled", 0))
    refused = f"; ASC is not used: {found['asc_not_used']}" if "asc_not_used" in found else ""
    besides = f"; {counted(compiled, 'compiled test')} besides" if compiled else ""
    return f"{shown}{besides}{refused}"


def index_form(found: Detail) -> str:
    """The form of an index of predicates."""
    form = str(found.get("form", "?"))
    if form == "in turn":
        return "none, one predicate after the other"
    if form != "asc":
        return form
    order = " > ".join(_column(found, c) for c in found.get("sequence", ())) or "nothing"
    ratio = float(found.get("dropping_ratio", 0.0))
    changes = counted(int(found.get("rearrangements", 0)), "rearrangement")
    added = f"; {counted(found['added'], 'clause')} beside them" if "added" in found else ""
    return f"ASC in the sequence {order}; {100 * ratio:.0f}% of events dropped; {changes}{added}"


def _access_parts(found: Detail) -> list[str]:
    classes = [_columns(found, c) for c in found.get("classes", ()) if c]
    parts = []
    if classes:
        parts.append(f"{counted(len(classes), 'hash class')}: {some(classes)}")
    for key, word in (("trees", "ranges of"), ("patterns", "texts in")):
        columns = found.get(key, ())
        if columns:
            parts.append(f"{word} {_columns(found, columns)}")
    return parts


def _columns(found: Detail, columns: Iterable[Any]) -> str:
    return " + ".join(_column(found, c) for c in columns)


def _column(found: Detail, column: Any) -> str:
    names = found.get("columns", ())
    return str(names[column]) if isinstance(column, int) and column < len(names) else str(column)
