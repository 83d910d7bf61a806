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

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from braid.algebra.expressions import (
    Call,
    Duration,
    Expression,
    Literal,
    Parameter,
    Source,
    conjunction,
    conjuncts,
    refs,
)
from braid.algebra.nodes import Iterate, Sequence
from braid.algebra.types import Kind, kind_of
from braid.operators.pattern.disjunctive_keys import alternatives_of
from braid.operators.pattern.spec import AlternativeKey, Key, key_of
from braid.plan.predicates import Atom, Clause, Constant, Lifter, is_static, tests
from braid.plan.routes import Bound

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
    keys, ordered, rest = _taken_apart(node.predicate, keyed)
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
def _taken_apart(predicate: Expression, keyed: bool) -> tuple[tuple[Key, ...], Clause, Expression]:
    """The keys, the tests in one order, and what is neither nor a bound."""
    keys: list[Key] = []
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
        elif not _is_exact_bound(part):
            rest.append(part)
    ordered = tuple(sorted(found, key=lambda a: (a.key.name or "", a.kind, repr(a))))
    return tuple(keys), ordered, conjunction(tuple(rest))


_MIRRORED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt", "eq": "eq"}


@lru_cache(1 << 16)
def bounds_of(predicate: Expression) -> tuple[Bound, ...]:
    """The constants that conjuncts `DUR <= c`, `DUR < c` and `DUR = c` bound a result with."""
    found = (_bound(part) for part in conjuncts(predicate))
    return tuple(bound for bound, _ in found if bound is not None)


def _is_exact_bound(part: Expression) -> bool:
    """Whether the bound says all that the conjunct does."""
    bound, exact = _bound(part)
    return bound is not None and exact


def _bound(part: Expression) -> tuple[Bound | None, bool]:
    if not (isinstance(part, Call) and part.function in _MIRRORED):
        return None, False
    left, right = part.args
    function = part.function
    if isinstance(left, Literal | Parameter):
        left, right, function = right, left, _MIRRORED[function]
    if not isinstance(left, Duration) or function not in ("le", "lt", "eq"):
        return None, False
    if not isinstance(right, Literal | Parameter):
        return None, False
    if kind_of(right.type) not in (Kind.INTEGER, Kind.DURATION):
        return None, False
    if isinstance(right, Literal) and right.value is None:
        return None, False
    return Bound(right, strict=function == "lt"), function != "eq"


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
