"""Ways to instances: the equalities by which each clause of a disjunction finds them.

    $2.Name = $1.Name OR $2.Code = $1.Code AND $2.Price > 5 OR $2.Kind = 'all'
    -> three ways: Name; Code; Kind with the constant

What a predicate asks of every instance, equalities with what it has bound, are its keys, and one hash
leads to the instances that have them. A disjunction has no such equality. If each of its clauses has
one, an instance can be hung up once for each clause, and an event looks along every way; where one
clause has none, all instances must be asked, as they are without an index.

A way only leads: the predicate as a whole is asked of what is found. So it need not be said that the
clauses of the normal form are complete, only that the predicate is false or unknown wherever no way's
equalities hold.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from braid.algebra.expressions import Call, Expression, Parameter, Source, conjuncts
from braid.algebra.types import Kind, kind_of
from braid.operators.pattern.spec import WayKey, key_of
from braid.plan.specs import plain_ref

#: More ways than this are not worth it: an event looks along all of them.
MAX_WAYS = 8

Way = tuple[WayKey, ...]


@lru_cache(1 << 12)
def ways_of(residual: Expression, bound: bool, static: bool) -> tuple[Way, ...]:
    """The fewest ways that one of the conjuncts gives, or none if no one is such a disjunction.

    `bound`: equalities with what an instance has bound may be used; `static`: those with constants.
    """
    found = (_ways(part, bound, static) for part in conjuncts(residual))
    return min((ways for ways in found if ways is not None), key=len, default=())


def _ways(part: Expression, bound: bool, static: bool) -> tuple[Way, ...] | None:
    """Equalities some of which hold wherever an expression is true; None if none is known."""
    if not isinstance(part, Call):
        return None
    match part.function:
        case "or":
            sides = [_ways(arg, bound, static) for arg in part.args]
            known = [side for side in sides if side is not None]
            if len(known) < len(sides):
                return None
            return _limited(tuple(dict.fromkeys(way for side in known for way in side)))
        case "and":
            known = [w for arg in part.args if (w := _ways(arg, bound, static)) is not None]
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


def _limited(ways: tuple[Way, ...]) -> tuple[Way, ...] | None:
    return ways if len(ways) <= MAX_WAYS else None


def _joined(choice: tuple[Way, ...]) -> Way:
    return tuple(dict.fromkeys(key for way in choice for key in way))


def _key(equal: Call, bound: bool, static: bool) -> WayKey | None:
    key = key_of(equal)
    if key is not None:
        return WayKey(key.event, key.floating, key.instance) if bound else None
    return _constant_key(equal) if static else None


def _constant_key(equal: Call) -> WayKey | None:
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
    return WayKey(ref.name, kind is Kind.FLOAT, constant=right.index)
