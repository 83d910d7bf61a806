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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from braid.algebra.expressions import (
    Expression,
    Ref,
    Source,
    conjunction,
    conjuncts,
    refs,
    transform,
)
from braid.algebra.nodes import Iterate, Sequence
from braid.operators.pattern.disjunctive_keys import MAX_ALTERNATIVES, alternatives_of
from braid.operators.pattern.spec import AlternativeKey, Key, StepRecipe, StepSpec, key_of
from braid.plan.duration_bounds import bounds_of, is_exact_bound
from braid.plan.planning import EXIT, Picked, Planning, Request
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
    aggregates: tuple[tuple[str, Expression], ...]
    constants: tuple[Constant, ...]
    bounds: tuple[Bound, ...]
    alternatives: tuple[tuple[AlternativeKey, ...], ...] = ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        rebind = () if self.rebind is None else (self.rebind,)
        return (self.residual, *rebind, *(e for _, e in self.aggregates))

    @property
    def shape(self) -> tuple[Any, ...]:
        return (self.residual, self.rebind, self.aggregates)


def parts_of(
    node: Sequence | Iterate,
    aggregates: tuple[tuple[str, Expression], ...],
    above: tuple[Bound, ...],
    keyed: bool,
    static: bool,
) -> Parts:
    """`above`: bounds on what this makes; `keyed`: whether equalities with what is bound become
    index keys; `static`: whether those with constants do."""
    keys, ordered, rest = _taken_apart(node.predicate, keyed, static)
    own = bounds_of(node.predicate)
    if isinstance(node, Iterate):
        own = (*own, *bounds_of(node.rebind))
    known = () if node.horizon is None else (Bound(node.horizon),)
    lifter = Lifter()
    residual = lifter.lift(rest)
    rebind = lifter.lift(node.rebind) if isinstance(node, Iterate) else None
    lifted = tuple((name, lifter.lift(e)) for name, e in aggregates)
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


def emitted(
    node: Sequence | Iterate, picked: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """Where each picked attribute comes from, in the terms of `StepSpec.emit`."""
    if isinstance(node, Sequence):
        return _of_sequence(node.names, node.first.schema.names, node.second.schema.names, picked)
    return tuple((name, _of_iterate(node, attribute)) for name, attribute in picked)


@lru_cache(4096)
def _of_sequence(
    names: tuple[str, ...],
    first: tuple[str, ...],
    second: tuple[str, ...],
    picked: tuple[tuple[str, str], ...],
) -> tuple[tuple[str, str], ...]:
    sources = [*(f"f:{name}" for name in first), *(f"e:{name}" for name in second)]
    source_of = dict(zip(names, sources, strict=True))
    return tuple((name, source_of[attribute]) for name, attribute in picked)


def _of_iterate(node: Iterate, attribute: str) -> str:
    updated = {name for name, _ in node.aggregates}
    if attribute in node.second.schema or attribute in updated:
        return f"l:{attribute}"
    if attribute in node.first.schema:
        return f"f:{attribute}"
    assert attribute.endswith("_1")
    return f"f:{attribute[:-2]}"


def needed_aggregates(
    node: Sequence | Iterate, shown: set[str]
) -> tuple[tuple[str, Expression], ...]:
    """Aggregates that are shown, or that some predicate or needed aggregate refers to."""
    if isinstance(node, Sequence):
        return ()
    needed = {s[2:] for s in shown if s.startswith("l:")}
    needed |= _last(node.predicate, node.rebind)
    while True:
        kept = tuple((n, e) for n, e in node.aggregates if n in needed)
        more = needed | _last(*(e for _, e in kept))
        if more == needed:
            return kept
        needed = more


def _last(*expressions: Expression) -> set[str]:
    return {r.name for e in expressions for r in refs(e) if r.source is Source.LAST}


# ---- stages ----


def pattern(walk: Planning, node: Sequence | Iterate, request: Request) -> Channel:
    """A sequence or an iteration, with the selection above it and only what is picked of it."""
    predicate = request.selection
    if request.picked is None:
        picked = _picked(node.schema.names, request.needed)
        forward = ALWAYS if predicate is None else normalise(predicate)
        return _pattern(walk, node, picked, forward, request)
    if predicate is None:
        return _pattern(walk, node, request.picked, ALWAYS, request)
    names = {attribute: name for name, attribute in request.picked}
    hidden = sorted(_names(predicate) - set(names))
    extra = tuple((f"__f{i}", attribute) for i, attribute in enumerate(hidden))
    shown = names | {attribute: name for name, attribute in extra}
    forward = normalise(_renamed(predicate, shown))
    return _pattern(walk, node, (*request.picked, *extra), forward, request)


def _pattern(
    walk: Planning,
    node: Sequence | Iterate,
    picked: Picked,
    forward: Predicate,
    request: Request,
) -> Channel:
    selection = request.selection
    asked: frozenset[str] = frozenset() if selection is None else _names(selection)
    hidden = asked.difference([attribute for _, attribute in picked])
    if hidden:
        picked = (*picked, *_picked(node.schema.names, hidden))
    emit = emitted(node, picked)
    shown = {source for _, source in emit}
    aggregates = needed_aggregates(node, shown)
    own = () if selection is None else bounds_of(selection)
    keyed, static = walk.has_rule("ai_index"), walk.has_rule("an_index")
    parts = parts_of(node, aggregates, (*request.bounds, *own), keyed, static)
    first, second = _needed(emit, parts.keys, parts.expressions)
    second |= {t.key.name for t in parts.tests if t.key.name is not None}
    definition = (parts.keys, parts.shape, emit)
    kind = ITERATE if isinstance(node, Iterate) else SEQUENCE
    port = signature((kind, definition, 2))
    later = walk.channel(node.second, second & set(node.second.schema.names), port, parts.bounds)
    port = signature((kind, definition, later.signature))
    earlier = walk.channel(node.first, first & set(node.first.schema.names), port, parts.bounds)
    outside = request.port == EXIT and bool(parts.bounds) and not walk.frozen
    return _step(walk, kind, (earlier, later), definition, parts, emit, forward, outside)


def _step(
    walk: Planning,
    kind: str,
    sides: tuple[Channel, Channel],
    definition: tuple[Any, ...],
    parts: Parts,
    emit: Picked,
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
    spec = StepSpec(
        sides[0].shape,
        sides[1].shape,
        parts.keys,
        parts.residual,
        parts.rebind,
        parts.aggregates,
        emit,
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


@lru_cache(4096)
def _picked(names: tuple[str, ...], wanted: frozenset[str]) -> Picked:
    return tuple((n, n) for n in names if n in wanted)


@lru_cache(4096)
def _needed(
    emit: Picked, keys: tuple[Key, ...], expressions: tuple[Expression, ...]
) -> tuple[frozenset[str], frozenset[str]]:
    """What a step asks of its first and of its second input, besides tests."""
    first = {s[2:] for _, s in emit if s.startswith("f:")}
    first |= {k.instance[2:] for k in keys}
    second = {s[2:] for _, s in emit if s.startswith(("e:", "l:"))}
    second |= {k.event for k in keys}
    second |= {k.instance[2:] for k in keys if k.instance.startswith("l:")}
    return (
        _names(*expressions, sources=(Source.FIRST, Source.LAST)) | first,
        _names(*expressions, sources=(Source.SECOND, Source.LAST)) | second,
    )


@lru_cache(1 << 16)
def _names(
    *expressions: Expression, sources: tuple[Source, ...] = (Source.INPUT,)
) -> frozenset[str]:
    return frozenset(r.name for e in expressions for r in refs(e) if r.source in sources)


def _renamed(predicate: Expression, names: Mapping[str, str]) -> Expression:
    def change(part: Expression) -> Expression | None:
        return Ref(part.source, names[part.name], part.type) if isinstance(part, Ref) else None

    return transform(predicate, change)
