"""Rewrite relations so that every operator of theirs is of a kind that an m-op can run.

Functions over whole columns (see `lower.py`) are computed before, as hidden columns. The best
place is the stream under the window: there an event is looked at once, while a row of a relation
comes and goes. So they sink through selections, projections and joins, to the input that they
are of; what looks at several inputs, or at groups, is computed where it stands.

    SELECT upper(A.k) FROM S [Range 5] AS A, T AS B WHERE A.k = B.k
    -> the window is on Project[k, upper(k) AS __v0](S), and SELECT has `0.__v0`

Keys and arguments of groups become columns, so that the m-op finds values and computes none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from braid.algebra.expressions import (
    Call,
    Expression,
    Ref,
    Source,
    conjunction,
    conjuncts,
    transform,
)
from braid.algebra.functions import is_vector
from braid.algebra.joins import in_names_of_join, in_own_names, inputs_of
from braid.algebra.nodes import Node, Project
from braid.algebra.relations import (
    Detection,
    DistinctRows,
    GroupRows,
    Join,
    KeepRows,
    MapRows,
    Relation,
    Window,
    column,
)
from braid.plan.computed_columns import (
    PREFIX,
    all_items,
    as_column,
    extended,
    has_vector,
    item,
    new_ones,
    no_names,
)

Items = tuple[tuple[str, Expression], ...]


def lower_rows(relation: Relation, stream: Callable[[Node], Node]) -> Relation:
    """An equivalent relation whose operators can all be planned; `stream` lowers what is below."""

    def lower(part: Relation) -> Relation:
        match part:
            case Window():
                return replace(part, input=stream(part.input))
            case KeepRows():
                return _keep(lower(part.input), part.predicate)
            case MapRows():
                return _map(lower(part.input), part.items)
            case Join():
                return _join(tuple(map(lower, part.inputs)), part.predicate)
            case GroupRows():
                return _group(lower(part.input), part)
            case DistinctRows():
                return DistinctRows(lower(part.input))
            case Detection(join=join):
                below = [lower(relation) for relation in join.inputs]
                return replace(part, join=_detected(below, join.predicate))

    return lower(relation)


# ---- operators ---------------------------------------------------------------------------------


def _keep(below: Relation, predicate: Expression) -> Relation:
    if not has_vector(predicate):
        return KeepRows(below, predicate)
    richer, (changed,) = _hoisted(below, (predicate,))
    return _as_before(KeepRows(richer, changed), below)


def _map(below: Relation, items: Items) -> Relation:
    if not any(has_vector(e) for _, e in items):
        return MapRows(below, items)
    richer, changed = _hoisted(below, tuple(e for _, e in items))
    return MapRows(richer, tuple(zip((name for name, _ in items), changed, strict=True)))


def _join(inputs: tuple[Relation, ...], predicate: Expression) -> Relation:
    """What combines several inputs by such a function is asked of the rows of the join."""
    parts = conjuncts(predicate)
    mixed = tuple(p for p in parts if any(len(inputs_of(v)) != 1 for v in _vectors(p)))
    plain = Join(inputs, conjunction(tuple(p for p in parts if p not in mixed)))
    joined: Relation = plain
    if has_vector(plain.predicate):
        richer, (changed,) = _hoisted(plain, (plain.predicate,))
        assert isinstance(richer, Join)
        joined = _as_before(replace(richer, predicate=changed), plain)
    return _keep(joined, conjunction(mixed)) if mixed else joined


def _detected(inputs: list[Relation], predicate: Expression) -> Join:
    """A join whose conjuncts are of one input, or equalities of two: all is computed below."""

    def hoisted(expression: Expression) -> Expression:
        (number,) = inputs_of(expression)
        own = in_own_names(expression)
        inputs[number], (own,) = _hoisted(inputs[number], (own,))
        return in_names_of_join(own, number)

    parts: list[Expression] = []
    for part in conjuncts(predicate):
        if len(inputs_of(part)) > 1 and isinstance(part, Call):
            parts.append(replace(part, args=tuple(map(hoisted, part.args))))
        else:
            parts.append(hoisted(part))
    return Join(tuple(inputs), conjunction(tuple(parts)))


def _group(below: Relation, group: GroupRows) -> Relation:
    args = tuple(arg for a in group.aggregates for arg in a.args)
    expressions = (*group.keys, *args)
    if any(map(has_vector, expressions)):
        below, expressions = _hoisted(below, expressions)
    hidden = no_names(below)
    columns = [as_column(e, hidden) for e in expressions]
    extra = tuple((name, expression) for expression, name in new_ones(hidden))
    if extra:
        below = MapRows(below, (*all_items(below), *extra))
    left = iter(columns[len(group.keys) :])
    aggregates = tuple(replace(a, args=tuple(next(left) for _ in a.args)) for a in group.aggregates)
    return GroupRows(below, tuple(columns[: len(group.keys)]), aggregates)


def _as_before(relation: Relation, like: Relation) -> Relation:
    """Only the columns that another relation has."""
    if relation.schema == like.schema:
        return relation
    return MapRows(relation, all_items(like))


# ---- hidden columns ----------------------------------------------------------------------------


def _vectors(expression: Expression) -> list[Expression]:
    """The outermost functions over whole columns."""
    found: list[Expression] = []

    def change(part: Expression) -> Expression | None:
        if is_vector(part):
            found.append(part)
            return part
        return None

    transform(expression, change)
    return found


def _hoisted(
    below: Relation, expressions: tuple[Expression, ...]
) -> tuple[Relation, tuple[Expression, ...]]:
    """The relation with a column for each such function, and expressions that refer to these."""
    vectors = tuple(dict.fromkeys(v for e in expressions for v in _vectors(e)))
    richer, columns = _computed(below, vectors)
    known: dict[Expression, Expression] = dict(zip(vectors, columns, strict=True))

    def change(part: Expression) -> Expression | None:
        return known[part] if is_vector(part) else None

    return richer, tuple(transform(e, change) for e in expressions)


def _computed(relation: Relation, vectors: Sequence[Expression]) -> tuple[Relation, list[Ref]]:
    """The relation with more columns, computed as far below as they can be."""
    if not vectors:
        return relation, []
    match relation:
        case Window():
            return _computed_below(relation, vectors)
        case KeepRows():
            below, columns = _computed(relation.input, vectors)
            return KeepRows(below, relation.predicate), columns
        case MapRows():
            computed = dict(relation.items)
            below, columns = _computed(relation.input, [_substituted(v, computed) for v in vectors])
            named = _named(columns, len(no_names(relation)))
            return MapRows(below, (*relation.items, *named)), _refs(named)
        case Join():
            return _computed_in_join(relation, vectors)
        case GroupRows() | DistinctRows() | Detection():
            return _computed_here(relation, vectors)


def _computed_below(window: Window, vectors: Sequence[Expression]) -> tuple[Window, list[Ref]]:
    """As attributes of the stream, those that it has already only once."""
    stream = window.input
    known: dict[Expression, str] = {}
    if isinstance(stream, Project):
        computed = dict(stream.items)
        made = {e: name for name, e in stream.items if name.startswith(PREFIX)}
        own = {v: _substituted(v, computed) for v in vectors}
        known = {v: made[e] for v, e in own.items() if e in made}
    missing = [v for v in vectors if v not in known]
    named = _named(missing, len(no_names(stream)))
    known |= {e: name for name, e in named}
    refs = [Ref(Source.INPUT, known[v], v.type) for v in vectors]
    return replace(window, input=extended(stream, named)), refs


def _computed_in_join(join: Join, vectors: Sequence[Expression]) -> tuple[Relation, list[Ref]]:
    inputs = list(join.inputs)
    known: dict[Expression, Ref] = {}
    for number in range(len(inputs)):
        own = [v for v in vectors if inputs_of(v) == {number}]
        inputs[number], columns = _computed(inputs[number], [in_own_names(v) for v in own])
        for vector, ref in zip(own, columns, strict=True):
            known[vector] = Ref(Source.INPUT, column(number, ref.name), ref.type)
    joined: Relation = Join(tuple(inputs), join.predicate)
    rest = [v for v in vectors if v not in known]
    joined, columns = _computed_here(joined, rest)
    known |= dict(zip(rest, columns, strict=True))
    return joined, [known[v] for v in vectors]


def _computed_here(relation: Relation, vectors: Sequence[Expression]) -> tuple[Relation, list[Ref]]:
    """Columns computed of the rows as they are here; their arguments are computed before."""
    if not vectors:
        return relation, []
    hidden = no_names(relation)
    items = [item(v, hidden) for v in vectors]
    extra = tuple((name, expression) for expression, name in new_ones(hidden))
    if extra:
        relation = MapRows(relation, (*all_items(relation), *extra))
    named = _named(items, len(hidden))
    return MapRows(relation, (*all_items(relation), *named)), _refs(named)


def _named(expressions: Sequence[Expression], first: int) -> list[tuple[str, Expression]]:
    return [(f"{PREFIX}{first + k}", e) for k, e in enumerate(expressions)]


def _refs(named: Sequence[tuple[str, Expression]]) -> list[Ref]:
    return [Ref(Source.INPUT, name, e.type) for name, e in named]


def _substituted(expression: Expression, items: dict[str, Expression]) -> Expression:
    def change(part: Expression) -> Expression | None:
        return items[part.name] if isinstance(part, Ref) else None

    return transform(expression, change)
