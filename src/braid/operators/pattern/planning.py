"""NEXT and FOLD taken apart: what is an index key, what is a test, what is a bound, what is code.

NEXT{$2.Name = $1.Name AND $2.Kind = 'sell' AND $2.Price > 1.1 * $1.Price AND DUR <= 10 min}
  key    $2.Name = $1.Name              found by hash on what the instance has bound
  test   Kind = 'sell'                  data of the member
  bound  10 min                         data of the member: its instances expire
  code   $2.Price > :0 * $1.Price       compiled once; the constant 1.1 is data

A disjunction is code as well; but if each of its clauses has an equality, instances are found by these
(see `operators/pattern/disjunctive_keys.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from braid.algebra.expressions import (
    Expression,
    Ref,
    Source,
    conjunction,
    conjuncts,
    refs,
)
from braid.algebra.nodes import Iterate, Sequence
from braid.operators.pattern.disjunctive_keys import MAX_ALTERNATIVES, alternatives_of
from braid.operators.pattern.spec import AlternativeKey, Key, Last, StepRecipe, StepSpec, key_of
from braid.plan.column_names import (
    attribute_of_first,
    closure,
    columns_of,
    columns_read,
    last_columns,
    renamed,
)
from braid.plan.duration_bounds import bounds_of, is_exact_bound
from braid.plan.planning import EXIT, Planning, Request
from braid.plan.predicates import (
    ALWAYS,
    Atom,
    Clause,
    Constant,
    Lifter,
    Predicate,
    is_static,
    normalise,
    tests,
)
from braid.plan.routes import Bound
from braid.plan.sharing import ITERATE, SEQUENCE, Channel, Operator, signature

#: Tests that a step can make by itself; others are compiled.
_SIMPLE = frozenset({"between", "ne", "in", "not in", "null", "not null"})


@dataclass(frozen=True)
class Parts:
    """A pattern operator with its constants taken out."""

    keys: tuple[Key, ...]
    tests: Clause
    residual: Expression
    rebind: Expression | None
    lasts: tuple[Last, ...]
    constants: tuple[Constant, ...]
    bounds: tuple[Bound, ...]
    alternatives: tuple[tuple[AlternativeKey, ...], ...] = ()

    @property
    def shape(self) -> tuple[Any, ...]:
        return (self.residual, self.rebind, self.lasts)


def parts_of(
    node: Sequence | Iterate,
    lasts: tuple[Last, ...],
    above: tuple[Bound, ...],
    keyed: bool,
    static: bool,
) -> Parts:
    """`lasts`: the values of the last iteration that are part of what it is; `above`: bounds on what
    this makes; `keyed`: whether equalities with what is bound become index keys; `static`: whether
    those with constants do."""
    names = columns_read(node)
    keys, ordered, rest = _taken_apart(renamed(node.predicate, names), keyed, static)
    own = bounds_of(node.predicate)
    if isinstance(node, Iterate):
        own = (*own, *bounds_of(node.rebind))
    known = () if node.horizon is None else (Bound(node.horizon),)
    lifter = Lifter()
    residual = lifter.lift(rest)
    rebind = None
    if isinstance(node, Iterate):
        rebind = lifter.lift(renamed(node.rebind, names))
    lifted = tuple(replace(last, update=lifter.lift(last.update)) for last in lasts)
    return Parts(
        keys,
        ordered,
        residual,
        rebind,
        lifted,
        tuple(lifter.constants),
        tuple(dict.fromkeys((*known, *own, *above))),
        alternatives_of(residual, keyed, static),
    )


@lru_cache(1 << 16)
def _taken_apart(
    predicate: Expression, keyed: bool, static: bool
) -> tuple[tuple[Key, ...], Clause, Expression]:
    """The keys, the tests in one order, and what is neither nor a bound.

    A short list of values is a test. If instances can be found by nothing else, it is code, and each
    value is an alternative key.
    """
    keys: list[Key] = []
    lists: dict[Atom, Expression] = {}
    found: list[Atom] = []
    rest: list[Expression] = []
    for part in conjuncts(predicate):
        key = key_of(part) if keyed else None
        if key is not None:
            keys.append(key)
            continue
        asked = tests(part, Source.SECOND) if is_static(part, Source.SECOND) else None
        if asked is not None and all(atom.kind in _SIMPLE for atom in asked):
            found.extend(asked)
            short = (a for a in asked if a.kind == "in" and len(a.among) <= MAX_ALTERNATIVES)
            lists |= dict.fromkeys(short, part)
        elif not is_exact_bound(part):
            rest.append(part)
    if static and lists and not keys and not any(atom.is_equality for atom in found):
        shortest = min(lists, key=lambda atom: len(atom.among))
        found.remove(shortest)
        rest.append(lists[shortest])
    ordered = tuple(sorted(found, key=lambda a: (a.key.name or "", a.kind, repr(a))))
    return tuple(keys), ordered, conjunction(tuple(rest))


@dataclass(frozen=True)
class Needs:
    """What a query needs of a pattern operator: the columns that it shows or tests later, and the
    attributes of both inputs."""

    columns: tuple[str, ...]
    first: frozenset[str]
    second: frozenset[str]
    #: Values of the last iteration that decide about instances or have constants of the member.
    lasts: tuple[Last, ...]
    #: The other values of the last iteration that it shows: they only take room in an instance.
    shown: tuple[Last, ...]


@lru_cache(1 << 14)
def needs_of(node: Sequence | Iterate, needed: frozenset[str]) -> Needs:
    """`needed`: the attributes of the operator that are shown or tested."""
    names = columns_of(node)
    columns = tuple(sorted({names[name] for name in needed}))
    if isinstance(node, Sequence):
        first, second = _of_sequence(node, needed)
        return _needs(node, columns, first, second, {}, set())
    first = {attribute_of_first(node, n) for n in needed if names[n].startswith("f:")}
    shown = {n for n in needed if names[n].startswith("l:")}
    deciding = _last(node.predicate, node.rebind)
    deciding |= {n for n in shown if _has_constants(closure(node, {n}).values())}
    kept = closure(node, deciding | shown)
    return _needs(node, columns, first, set(), kept, deciding)


def _needs(
    node: Sequence | Iterate,
    columns: tuple[str, ...],
    first: set[str],
    second: set[str],
    kept: Mapping[str, Expression | None],
    deciding: set[str],
) -> Needs:
    expressions = [node.predicate, *(e for e in kept.values() if e is not None)]
    lasts: tuple[Last, ...] = ()
    others: tuple[Last, ...] = ()
    if isinstance(node, Iterate):
        expressions.append(node.rebind)
        lasts, every = _lasts_of(node, closure(node, deciding)), _lasts_of(node, kept)
        others = tuple(last for last in every if last not in lasts)
    both = (Source.FIRST, Source.LAST)
    first |= _names(*expressions, sources=both) & set(node.first.schema.names)
    second |= _names(*expressions, sources=(Source.SECOND, Source.LAST)) | kept.keys()
    second &= set(node.second.schema.names)
    return Needs(columns, frozenset(first), frozenset(second), lasts, others)


def _of_sequence(node: Sequence, needed: frozenset[str]) -> tuple[set[str], set[str]]:
    """The attributes of both inputs that a sequence shows under some of its names."""
    first, second = node.first.schema.names, node.second.schema.names
    early = zip(node.names, first, strict=False)
    late = zip(node.names[len(first) :], second, strict=True)
    return {a for n, a in early if n in needed}, {a for n, a in late if n in needed}


def _lasts_of(node: Iterate, kept: Mapping[str, Expression | None]) -> tuple[Last, ...]:
    """Values of the last iteration, in order of their columns."""
    columns, first, second = last_columns(node), columns_of(node.first), columns_of(node.second)
    found: dict[str, Last] = {}
    for name, update in kept.items():
        if update is None:
            type_ = node.second.schema.type_of(name)
            update = Ref(Source.SECOND, second[name], type_)
        else:
            update = renamed(update, columns_read(node))
        found[columns[name]] = Last(columns[name], first.get(name), update)
    return tuple(found[column] for column in sorted(found))


def _has_constants(expressions: Iterable[Expression | None]) -> bool:
    lifter = Lifter()
    for expression in expressions:
        if expression is not None:
            lifter.lift(expression)
    return bool(lifter.constants)


def _last(*expressions: Expression) -> set[str]:
    return {r.name for e in expressions for r in refs(e) if r.source is Source.LAST}


# ---- stages ----


def pattern(walk: Planning, node: Sequence | Iterate, request: Request) -> Channel:
    """A sequence or an iteration, with the selection above it."""
    selection = request.selection
    forward = ALWAYS
    own: tuple[Bound, ...] = ()
    asked: frozenset[str] = frozenset()
    if selection is not None:
        forward = normalise(renamed(selection, {Source.INPUT: columns_of(node)}))
        own, asked = bounds_of(selection), _names(selection)
    needs = needs_of(node, request.needed | asked)
    keyed, static = walk.has_rule("ai_index"), walk.has_rule("an_index")
    parts = parts_of(node, needs.lasts, (*request.bounds, *own), keyed, static)
    definition = (parts.keys, parts.shape)
    kind = ITERATE if isinstance(node, Iterate) else SEQUENCE
    port = signature((kind, definition, 2))
    later = walk.shared_channel(node.second, needs.second, port, parts.bounds)
    port = signature((kind, definition, later.signature))
    earlier = walk.shared_channel(node.first, needs.first, port, parts.bounds)
    outside = request.port == EXIT and bool(parts.bounds) and not walk.frozen
    return _step(walk, kind, (earlier, later), definition, parts, needs, forward, outside)


def _step(
    walk: Planning,
    kind: str,
    sides: tuple[Channel, Channel],
    definition: tuple[Any, ...],
    parts: Parts,
    needs: Needs,
    forward: Predicate,
    outside: bool,
) -> Channel:
    # Bounds and the forward selection are not part of the state: members that differ in them
    # may share instances.
    constants: tuple[Any, ...] = (parts.tests, parts.constants)
    if walk.frozen:
        constants = (*constants, parts.bounds, forward)
    operator = Operator(kind, sides, definition, constants)
    sharing = walk.sharing(operator)
    shown = {f"l:{last.name}": last for last in needs.shown}
    # What a value depends on is kept with it, whether or not it is shown.
    written = walk.shared_columns(sharing, dict.fromkeys(needs.columns) | shown)
    spec = StepSpec(
        sides[0].shape,
        sides[1].shape,
        parts.keys,
        parts.residual,
        parts.rebind,
        (*parts.lasts, *(last for _, last in written if last is not None)),
        tuple(column for column, _ in written),
        sides[0].membered,
        sides[1].membered,
        merged=sharing.flags.get("merged", False),
        channels=sharing.flags.get("channels", False),
        static_index=walk.has_rule("an_index"),
        forward_index=walk.has_rule("fr_index"),
        alternatives=parts.alternatives,
    )
    recipe = StepRecipe(parts.tests, parts.constants, parts.bounds, forward, outside)
    # Always of members: others of this shape may have bounds or go on with a selection.
    return walk.add(operator, sharing, spec, recipe, membered=True)


@lru_cache(1 << 16)
def _names(
    *expressions: Expression, sources: tuple[Source, ...] = (Source.INPUT,)
) -> frozenset[str]:
    return frozenset(r.name for e in expressions for r in refs(e) if r.source in sources)
