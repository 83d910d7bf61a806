"""Alternative keys: the equalities by which each clause of a disjunction finds instances.

    $2.Name = $1.Name OR $2.Code = $1.Code AND $2.Price > 5 OR $2.Kind = 'all'
    -> three alternatives: Name; Code; Kind with the constant

Equalities that a predicate asks of every instance are its keys, and one hash leads to the instances
that have them. A disjunction has no such equality. If each of its clauses has one, an instance hangs
in an index for each clause, and an event looks into all of them. If one clause has none, an event is
compared with all instances, as without an index.

An alternative only finds instances: the predicate as a whole decides about them. So the clauses of the
normal form need not be complete; the predicate must be false or unknown where the equalities of no
alternative hold.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from braid.algebra.expressions import Call, Expression, Parameter, Source, conjuncts
from braid.algebra.types import Kind, kind_of
from braid.operators.pattern.spec import AlternativeKey, key_of
from braid.plan.specs import plain_ref

#: More alternatives than this are not worth it: an event looks into all of them.
MAX_ALTERNATIVES = 8

Alternative = tuple[AlternativeKey, ...]


@lru_cache(1 << 12)
def alternatives_of(residual: Expression, bound: bool, static: bool) -> tuple[Alternative, ...]:
    """The fewest alternatives that one of the conjuncts gives, or none if no one is such a disjunction.

    `bound`: equalities with what an instance has bound may be used; `static`: those with constants.
    """
    found = (_alternatives(part, bound, static) for part in conjuncts(residual))
    return min(
        (alternatives for alternatives in found if alternatives is not None), key=len, default=()
    )


def _alternatives(part: Expression, bound: bool, static: bool) -> tuple[Alternative, ...] | None:
    """Equalities some of which hold wherever an expression is true; None if none is known."""
    if not isinstance(part, Call):
        return None
    match part.function:
        case "or":
            sides = [_alternatives(arg, bound, static) for arg in part.args]
            known = [side for side in sides if side is not None]
            if len(known) < len(sides):
                return None
            return _limited(
                tuple(dict.fromkeys(alternative for side in known for alternative in side))
            )
        case "and":
            known = [w for arg in part.args if (w := _alternatives(arg, bound, static)) is not None]
            if not known:
                return None
            whole = tuple(_joined(choice) for choice in product(*known))
            return _limited(whole) or min(known, key=len)
        case "eq":
            key = _key(part, bound, static)
            return None if key is None else ((key,),)
        case "in":
            values = (Call("eq", (part.args[0], value), part.type) for value in part.args[1:])
            keys = [_key(equal, bound, static) for equal in values]
            return _limited(tuple((key,) for key in keys if key)) if all(keys) else None
    return None


def _limited(alternatives: tuple[Alternative, ...]) -> tuple[Alternative, ...] | None:
    return alternatives if len(alternatives) <= MAX_ALTERNATIVES else None


def _joined(choice: tuple[Alternative, ...]) -> Alternative:
    return tuple(dict.fromkeys(key for alternative in choice for key in alternative))


def _key(equal: Call, bound: bool, static: bool) -> AlternativeKey | None:
    key = key_of(equal)
    if key is not None:
        return AlternativeKey(key.event, key.floating, key.instance) if bound else None
    return _constant_key(equal) if static else None


def _constant_key(equal: Call) -> AlternativeKey | None:
    """An attribute of the event that is compared with a constant whose word is like its own."""
    left, right = equal.args
    if isinstance(left, Parameter):
        left, right = right, left
    ref = plain_ref(left)
    if ref is None or ref.source is not Source.SECOND or not isinstance(right, Parameter):
        return None
    kind = kind_of(ref.type)
    if kind is not kind_of(right.type) or kind in (Kind.OPAQUE, Kind.NULL):
        return None
    if kind is Kind.DECIMAL and ref.type.scale != right.type.scale:
        return None
    return AlternativeKey(ref.name, kind is Kind.FLOAT, constant=right.index)
