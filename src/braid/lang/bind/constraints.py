"""Declarations of constraints, from CREATE CONSTRAINT or from Python, checked against the streams.

Declared and published streams can have constraints. Views cannot: their properties follow from
their inputs, and joins observe them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from braid.algebra.constraint_modes import safe_mode
from braid.algebra.constraints import Constraint, ConstraintKind, ConstraintMode
from braid.algebra.schema import TICKS, Schema
from braid.algebra.templates import Output
from braid.algebra.types import Kind, common_type, kind_of, sql_name
from braid.errors import ConfigError
from braid.lang.bind.warnings import Warnings
from braid.lang.parse import syntax
from braid.lang.parse.durations import parse_duration
from braid.lang.parse.limits import quoted, whole_number
from braid.lang.parse.problems import Gather, Problem, Problems, alternatives

if TYPE_CHECKING:
    from braid.lang.catalog.catalog import Catalog


@dataclass(frozen=True)
class _Source:
    """The parts of a declared or published stream that constraints need."""

    name: str
    schema: Schema
    unit: str
    time: Sequence[str] = ()


_ORDERED = (ConstraintKind.ASCENDING, ConstraintKind.DESCENDING)
_HIGHEST = 2**63
_NOWHERE = (0, 0)


def bind_constraint(
    node: syntax.CreateConstraint, catalog: Catalog, failed: Collection[str] = ()
) -> Constraint:
    """CREATE CONSTRAINT. `failed` are streams that are missing because of an error in another
    statement."""
    gather = Gather()
    with gather:
        _check_name(node.name, catalog)
    with gather:
        kind = ConstraintKind(node.kind)
        stream = _stream(node.stream, catalog, failed)
        target = None if node.target is None else _stream(node.target, catalog, failed)
        names = _attributes(stream, node.attributes)
        theirs = () if target is None else _attributes(target, node.target_attributes)
        _check_types(kind, stream, node)
        if target is not None:
            _check_pairs(stream, target, node)
        k, timed = _within(node.within, stream)
    gather.check()
    other = None if target is None else target.name
    return Constraint(node.name.name, kind, stream.name, names, other, theirs, k, timed)


def declared_constraint(
    catalog: Catalog,
    name: str,
    kind: str | ConstraintKind,
    stream: str,
    attributes: str | Sequence[str],
    *,
    target: str | None = None,
    target_attributes: str | Sequence[str] = (),
    within: int | str | None = None,
) -> Constraint:
    """A constraint from Python: `within` is a number of rows, or "100 rows", "10 minutes", "5
    ticks"."""
    word = kind.value if isinstance(kind, ConstraintKind) else kind.lower()
    kinds = [known.value for known in ConstraintKind]
    if word not in kinds:
        hint = alternatives("kinds", word, kinds)
        raise ConfigError("E197", f"there is no kind of constraint {kind!r}", hint)
    if (word == "references") != (target is not None):
        hint = 'give target="..." and target_attributes with "references", and only there'
        raise ConfigError("E197", f"constraint {name!r}: what it refers to does not fit", hint)
    if word == "key" and within is not None:
        raise ConfigError("E198", f"constraint {name!r}: a key is one or is none")
    own, theirs = _idents(attributes), _idents(target_attributes)
    if not own:
        raise ConfigError("E197", f"constraint {name!r} names no attribute")
    node = syntax.CreateConstraint(
        syntax.Ident(name, _NOWHERE),
        word,
        syntax.Ident(stream, _NOWHERE),
        own,
        None if target is None else syntax.Ident(target, _NOWHERE),
        theirs,
        _read_within(within),
        _NOWHERE,
    )
    try:
        return bind_constraint(node, catalog)
    except (Problem, Problems) as error:
        first = error.problems[0] if isinstance(error, Problems) else error
        raise ConfigError(first.code, first.message, first.hint) from None


def _idents(names: str | Sequence[str]) -> tuple[syntax.Ident, ...]:
    listed = (names,) if isinstance(names, str) else tuple(names)
    return tuple(syntax.Ident(name, _NOWHERE) for name in listed)


def _read_within(within: int | str | None) -> syntax.Within | None:
    if within is None:
        return None
    words = str(within).split()
    unit = words[1].lower() if len(words) == 2 else "rows" if len(words) == 1 else ""
    known = {"row": "rows", "rows": "rows", "tick": "ticks", "ticks": "ticks"}
    if words and whole_number(words[0]) is not None and unit in known:
        return syntax.Within(syntax.Number(words[0], _NOWHERE), known[unit], _NOWHERE)
    length = syntax.Period(parse_duration(str(within)), _NOWHERE)
    return syntax.Within(length, "time", _NOWHERE)


def _check_name(name: syntax.Ident, catalog: Catalog) -> None:
    if name.name in catalog.constraints:
        hint = f"drop it first: DROP CONSTRAINT {name.name}"
        raise Problem("E195", f"there is a constraint {name.name!r} already", name.at, hint)


def _stream(name: syntax.Ident, catalog: Catalog, failed: Collection[str]) -> _Source:
    found, declared = catalog.source(name.name), catalog.streams.get(name.name)
    if found is not None:
        time = () if declared is None else tuple(declared.time)
        return _Source(found.stream, found.schema, found.unit, time)
    taken = catalog.taken(name.name)
    if taken is not None:
        hint = "declare it for the streams that this is made of"
        message = f"{name.name!r} is not a declared stream: {taken}"
        raise Problem("E197", message, name.at, hint)
    hint = alternatives("streams", name.name, catalog.streams)
    silent = name.name in failed
    raise Problem("E105", f"there is no stream {name.name!r}", name.at, hint, silent=silent)


def _attributes(stream: _Source, names: Sequence[syntax.Ident]) -> tuple[str, ...]:
    gather = Gather()
    seen: set[str] = set()
    for name in names:
        with gather:
            if name.name in stream.time:
                message = f"{name.name!r} is the time of {stream.name!r}, which is ordered anyway"
                raise Problem("E103", message, name.at)
            if name.name not in stream.schema:
                hint = alternatives("attributes", name.name, stream.schema.names)
                message = f"stream {stream.name!r} has no attribute {name.name!r}"
                raise Problem("E103", message, name.at, hint)
            if name.name in seen:
                raise Problem("E108", f"attribute {name.name!r} is there twice", name.at)
            seen.add(name.name)
    gather.check()
    return tuple(name.name for name in names)


def _check_types(kind: ConstraintKind, stream: _Source, node: syntax.CreateConstraint) -> None:
    for name in node.attributes:
        type_ = stream.schema.type_of(name.name)
        if kind_of(type_) is Kind.OPAQUE:
            message = f"{name.name!r} is {sql_name(type_)}, which no join compares"
            raise Problem("E197", message, name.at)
        if kind in _ORDERED and kind_of(type_) is Kind.STRING:
            hint = "numbers and times have an order that joins can use"
            raise Problem("E197", f"{name.name!r} is a string", name.at, hint)
    if kind in _ORDERED and len(node.attributes) > 1:
        hint = "declare a constraint for each attribute"
        message = f"{kind.value.upper()} takes one attribute"
        raise Problem("E197", message, node.attributes[1].at, hint)


def _check_pairs(stream: _Source, target: _Source, node: syntax.CreateConstraint) -> None:
    assert node.target is not None
    if len(node.attributes) != len(node.target_attributes):
        count, theirs = len(node.attributes), len(node.target_attributes)
        message = f"{count} attributes cannot refer to {theirs}"
        raise Problem("E197", message, node.target.at, "name as many on both sides")
    if stream.unit != target.unit:
        message = f"{stream.name!r} and {target.name!r} have different clocks: one counts ticks"
        raise Problem("E197", message, node.target.at)
    for ours, other in zip(node.attributes, node.target_attributes, strict=True):
        left, right = stream.schema.type_of(ours.name), target.schema.type_of(other.name)
        if common_type(left, right) is None:
            types = f"{ours.name!r} is {sql_name(left)}, {other.name!r} is {sql_name(right)}"
            raise Problem("E197", f"these can never be equal: {types}", other.at)


def _within(within: syntax.Within | None, stream: _Source) -> tuple[int, bool]:
    """k, and whether it counts time."""
    if within is None:
        return 0, False
    if within.unit == "time":
        if stream.unit == TICKS:
            hint = "write a number of TICKS, or of ROWS"
            raise Problem("E198", f"stream {stream.name!r} counts ticks", within.at, hint)
        assert isinstance(within.amount, syntax.Period)
        return within.amount.microseconds, True
    assert isinstance(within.amount, syntax.Number)
    k = _whole(within.amount)
    if within.unit == "ticks" and stream.unit != TICKS:
        hint = "write a length of time such as 10 minutes, or a number of ROWS"
        raise Problem("E198", f"stream {stream.name!r} does not count ticks", within.at, hint)
    return k, within.unit == "ticks"


def _whole(amount: syntax.Number) -> int:
    k = whole_number(amount.text)
    if k is None:
        raise Problem("E198", f"{quoted(amount.text)} is not a whole number", amount.at)
    if not 0 <= k < _HIGHEST:
        hint = "0 is kept strictly; a larger number says by how much it may be missed"
        raise Problem(
            "E198", f"a constraint cannot be kept within {quoted(str(k))}", amount.at, hint
        )
    return k


# --- the mode of a query ---


def bind_mode(name: syntax.Ident | None) -> ConstraintMode | None:
    """The mode after CONSTRAINTS in CREATE QUERY."""
    if name is None:
        return None
    modes = [mode.name for mode in ConstraintMode]
    if name.name.upper() not in modes:
        hint = alternatives("modes", name.name, modes)
        raise Problem("E199", f"there is no mode {name.name!r} of constraints", name.at, hint)
    return ConstraintMode[name.name.upper()]


def settled_mode(
    mode: ConstraintMode | None, outputs: Sequence[Output]
) -> tuple[ConstraintMode | None, Warnings]:
    """The mode that the query gets, with a warning if it is not the requested one."""
    found = None if mode is None else safe_mode(mode, outputs)
    if found is mode:
        return mode, ()
    message = (
        "an aggregate, a pattern, Dstream or Rstream over a join needs all its results: "
        "CONSTRAINTS EXACT is used, not MONITORED"
    )
    return found, (("W203", message),)
