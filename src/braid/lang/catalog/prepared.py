"""Prepared queries: one text with `:parameters`, and a row of values for each of its members.

    CREATE QUERY big FOR EACH (who STRING, floor DOUBLE) AS
      SELECT * FROM FILTER{Name = :who AND Price > :floor}(Stock) PUBLISH Big;

The text is parsed and bound once. A row that does not fit is refused with a reason; the others
become members. All members publish into the same stream.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.bounds import bound_durations
from braid.algebra.expressions import Expression, Parameter, transform
from braid.algebra.nodes import walk_nodes
from braid.algebra.queries import Output
from braid.algebra.relations import ToStream, WindowKind, windows
from braid.algebra.templates import Members, Template, map_expressions
from braid.algebra.types import Kind, kind_of, sql_name
from braid.errors import BraidError, ConfigError, Notice, Origin
from braid.lang.bind.constant_traces import Declared
from braid.lang.bind.constants import Constants
from braid.lang.bind.constraints import bind_mode, settled_mode
from braid.lang.bind.empty_ranges import empty_rows, ranges_of
from braid.lang.bind.lookups import Sources
from braid.lang.bind.views import view_names
from braid.lang.bind.warnings import warnings_about
from braid.lang.catalog.catalog import Catalog
from braid.lang.catalog.compile import (
    bind_outputs,
    notices,
    only_query,
    query_errors,
    together,
)
from braid.lang.parse import syntax
from braid.lang.parse.limits import MAX_WINDOW
from braid.lang.parse.problems import Problem, Problems, alternatives
from braid.lang.templates.lifting import plain
from braid.lang.templates.parameter_columns import converted, derived
from braid.lang.templates.parameter_rows import Column, Rows, read_rows

#: The column with a parameter's constants, and the types of its conversions in order.
Way = tuple[int, tuple[pa.DataType, ...]]


@dataclass(frozen=True, eq=False)
class Statement:
    """A prepared query without its rows. `ways` has one entry for each parameter of the template,
    `smallest` the least value of each length of a window."""

    name: str
    text: str
    parameters: tuple[tuple[str, pa.DataType], ...]
    template: Template
    ways: tuple[Way, ...]
    notices: tuple[Notice, ...]
    smallest: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Refused:
    """A refused row. Rows count from 0."""

    row: int
    reason: str
    shown: str
    code: str

    def render(self) -> str:
        return f"[{self.code}] row {self.row} ({self.shown}): {self.reason}"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A prepared query with the members from some rows; `rows` is the number of rows."""

    statement: Statement
    members: Members
    refused: list[Refused]
    rows: int

    @property
    def name(self) -> str:
        return self.statement.name

    @property
    def template(self) -> Template:
        return self.statement.template

    @property
    def notices(self) -> tuple[Notice, ...]:
        return self.statement.notices


def prepare(
    text: str | None,
    rows: Any,
    catalog: Catalog,
    *,
    name: str | None = None,
    ids: str | None = None,
    origin: Origin | None = None,
) -> Prepared:
    """Bind `CREATE QUERY ... FOR EACH ...` and give it rows, without a change to the catalog.

    `rows` is an Arrow table, a DataFrame, a dict of columns, a list of dicts or the path of a CSV
    file. Columns have the names of the parameters. `ids` names the column of ids; a member is
    called `name/id`. The default is the column `id` if it is not a parameter, otherwise the number
    of the row. Without a text, the query of the catalog called `name` gets more rows.
    """
    roster = catalog.prepared.get(name or "")
    if text is None:
        if roster is None:
            hint = alternatives("prepared queries", name or "", catalog.prepared)
            raise BraidError("E173", f"there is no prepared query {name!r}", hint)
        statement = roster.statement
    else:
        statement = _compiled(text, catalog, name, origin)
        roster = catalog.prepared.get(statement.name)
        if roster is not None and roster.statement.text == statement.text:
            statement = roster.statement  # the same query again: more rows for it
    return _with_rows(statement, read_rows(rows), ids, catalog)


def restored(text: str, members: pa.Table, catalog: Catalog, *, name: str) -> Prepared:
    """A prepared query with restored members: their ids, and the constants of the template."""
    statement = _compiled(text, catalog, name, None)
    ids, *columns = (column.combine_chunks() for column in members.columns)
    made = Members(statement.template, ids, tuple(columns))
    return Prepared(statement, made, [], len(ids))


def _compiled(text: str, catalog: Catalog, name: str | None, origin: Origin | None) -> Statement:
    origin = origin or Origin(query=name)
    try:
        statement, piece = only_query(text)
        if not isinstance(statement, syntax.CreateQuery) or not statement.parameters:
            hint = "write CREATE QUERY name FOR EACH (parameter TYPE, ...) AS ..."
            message = "this query has no parameters to prepare it for"
            raise Problem("E172", message, (piece.start, piece.end), hint)
        return bind_statement(statement, text.strip(), catalog, name=name)
    except (Problem, Problems) as error:
        raise together(query_errors(error, text, origin)) from None


def bind_prepared(
    statement: syntax.CreateQuery, text: str, catalog: Catalog, failed: Collection[str]
) -> Prepared:
    """A prepared query without rows."""
    bound = bind_statement(statement, text, catalog, failed=failed)
    return Prepared(bound, Members.of(bound.template, [], []), [], 0)


def bind_statement(
    statement: syntax.CreateQuery,
    text: str,
    catalog: Catalog,
    *,
    name: str | None = None,
    failed: Collection[str] = (),
) -> Statement:
    constants = Constants(statement.parameters)
    sources: Sources = {}
    bound, warnings = bind_outputs(statement.query, catalog, constants, failed, sources)
    outputs = plain(bound)
    constants.check_used()
    ways: dict[Way, int] = {}

    def number(part: Expression) -> Expression | None:
        if not isinstance(part, Declared):
            return None
        return Parameter(ways.setdefault((part.index, part.chain), len(ways)), part.type)

    changed = tuple(
        Output(bound_durations(map_expressions(o.node, lambda e: transform(e, number))), o.publish)
        for o in outputs
    )
    types = tuple(chain[-1] if chain else constants.types[index] for index, chain in ways)
    mode, told = settled_mode(bind_mode(statement.mode), changed)
    template = Template(changed, types, views=view_names(sources.items()), mode=mode)
    query = name or statement.name.name
    known = warnings_about(template.instantiate([_some(type_) for type_ in types]))
    declared = tuple(zip(constants.names, constants.types, strict=True))
    found = notices(query, (*known, *warnings, *told))
    return Statement(query, text, declared, template, tuple(ways), found, _smallest(template, ways))


def _smallest(template: Template, ways: Mapping[Way, int]) -> tuple[tuple[int, int], ...]:
    """The index of each parameter that is the length of a window, and its least value."""
    places = {number: index for (index, _), number in ways.items()}
    found: dict[int, int] = {}
    for output in template.outputs:
        for node in walk_nodes(output.node):
            for window in windows(node.relation) if isinstance(node, ToStream) else ():
                if isinstance(window.size, Parameter):
                    index = places[window.size.index]
                    least = 1 if window.kind is WindowKind.ROWS else 0
                    found[index] = max(least, found.get(index, 0))
    return tuple(found.items())


def _some(type_: pa.DataType) -> Any:
    """An arbitrary constant of a type, for checks that do not depend on the value."""
    return {Kind.STRING: "", Kind.BOOLEAN: False, Kind.FLOAT: 1.0}.get(kind_of(type_), 1)


# --- rows ---


class _Refusals:
    """The refused rows, each with its first error."""

    def __init__(self, rows: Rows, names: list[str]) -> None:
        self._rows = rows
        self._names = names
        self._found: dict[int, Refused] = {}
        self.good = np.ones(rows.count, dtype=bool)

    def add(self, where: np.ndarray, code: str, reason: str) -> None:
        for row in np.flatnonzero(where & self.good).tolist():
            shown = self._rows.shown(row, self._names)
            self._found[row] = Refused(row, reason, shown, code)
        self.good &= ~where

    def in_order(self) -> list[Refused]:
        return [self._found[row] for row in sorted(self._found)]


def _with_rows(statement: Statement, rows: Rows, ids: str | None, catalog: Catalog) -> Prepared:
    names = [name for name, _ in statement.parameters]
    id_column = _id_column(statement, rows, ids)
    _check_columns(statement, rows, [*names, *([id_column] if id_column else [])])
    shown = [*([id_column] if id_column and id_column not in names else []), *names]
    refusals = _Refusals(rows, shown)
    columns = [_parameter(rows, name, type_, refusals) for name, type_ in statement.parameters]
    for index, least in statement.smallest:
        words = np.asarray(columns[index].cast(pa.int64()).fill_null(least))
        shown_name = repr(statement.parameters[index][0])
        refusals.add(words < least, "E186", f"the window {shown_name} must be at least {least}")
        reason = f"the window {shown_name} must be at most {MAX_WINDOW}"
        refusals.add(words > MAX_WINDOW, "E186", reason)
    _refuse_empty_ranges(statement, columns, refusals)
    members = _member_ids(statement, rows, id_column, refusals, catalog)
    good = pa.array(refusals.good)
    kept = [column.filter(good) for column in columns]
    constants = []
    for index, chain in statement.ways:
        array = kept[index]
        for type_ in chain:
            array = derived(array, type_)
        constants.append(array)
    found = Members(statement.template, members.filter(good), tuple(constants))
    return Prepared(statement, found, refusals.in_order(), rows.count)


def _refuse_empty_ranges(
    statement: Statement, columns: list[pa.Array], refusals: _Refusals
) -> None:
    """Refuse rows with an empty range in their join."""

    def column(parameter: Parameter) -> pa.Array:
        index, chain = statement.ways[parameter.index]
        array = columns[index]
        for type_ in chain:
            array = derived(array, type_)
        return array

    for found in ranges_of(statement.template.outputs):
        empty = empty_rows(found, column, len(refusals.good))
        refusals.add(empty, "E210", f"nothing can be in the range of {found.attribute!r}")


def _id_column(statement: Statement, rows: Rows, ids: str | None) -> str | None:
    if ids is not None:
        return ids
    parameters = {name for name, _ in statement.parameters}
    return "id" if "id" in rows.columns and "id" not in parameters else None


def _check_columns(statement: Statement, rows: Rows, names: list[str]) -> None:
    for name in names:
        if name not in rows.columns:
            hint = alternatives("columns", name, rows.columns)
            message = f"prepared query {statement.name!r}: the rows have no column {name!r}"
            raise ConfigError("E166", message, hint)
    if rows.count == 0:
        raise ConfigError("E167", f"prepared query {statement.name!r}: there are no rows")


def _parameter(rows: Rows, name: str, type_: pa.DataType, refusals: _Refusals) -> pa.Array:
    column = rows.columns[name]
    values = converted(column, type_, written=rows.written)
    missing = _missing(column)
    refusals.add(missing, "E168", f"the parameter {name!r} has no value")
    unfit = np.asarray(values.is_null()) & ~missing
    refusals.add(unfit, "E169", f"the parameter {name!r} does not fit {sql_name(type_)}")
    return values


def _missing(column: Column) -> np.ndarray:
    if isinstance(column, list):
        return np.array([value is None or value != value for value in column], dtype=bool)
    return np.asarray(column.is_null())


def _member_ids(
    statement: Statement, rows: Rows, id_column: str | None, refusals: _Refusals, catalog: Catalog
) -> pa.Array:
    prefix = f"{statement.name}/"
    roster = catalog.prepared.get(statement.name)
    if id_column is None:
        start = roster.rows if roster is not None else 0
        ids = pa.array(np.arange(start, start + rows.count)).cast(pa.string())
    else:
        column = rows.columns[id_column]
        refusals.add(_missing(column), "E170", f"the id column {id_column!r} has no value")
        ids = _as_text(column)
    members = pc.binary_join_element_wise(pa.scalar(prefix), ids, pa.scalar(""))
    single = [query_id for query_id in catalog.queries.single if query_id.startswith(prefix)]
    taken = pc.is_in(members, value_set=pa.array(single, pa.string()))
    if roster is not None:
        taken = pc.or_(taken, pc.is_in(members, value_set=roster.members().ids))
    refusals.add(np.asarray(taken), "E171", "there is a query with this id already")
    refusals.add(_repeated(members, refusals.good), "E171", "an earlier row has the same id")
    return members


def _as_text(column: Column) -> pa.Array:
    if isinstance(column, list):
        return pa.array([None if v is None else str(v) for v in column], pa.string())
    whole = pa.types.is_floating(column.type) and pc.all(pc.equal(column, pc.floor(column))).as_py()
    return column.cast(pa.int64() if whole else column.type, safe=False).cast(pa.string())


def _repeated(ids: pa.Array, good: np.ndarray) -> np.ndarray:
    """The rows with the id of an earlier accepted row."""
    codes = np.asarray(ids.dictionary_encode().indices.fill_null(-1))
    rows = np.flatnonzero(good)
    _, first = np.unique(codes[rows], return_index=True)
    repeated = good.copy()
    repeated[rows[first]] = False
    return repeated
