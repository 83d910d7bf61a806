"""Declared constraints in the forms of a plan, a snapshot or a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from braid.algebra.constraints import Constraint, ConstraintKind, ConstraintMode, Watching
from braid.errors import ConfigError


def constraint_mode(given: str | ConstraintMode) -> ConstraintMode:
    """The mode of a session."""
    if isinstance(given, ConstraintMode):
        return given
    modes = {mode.value: mode for mode in ConstraintMode}
    found = modes.get(str(given).lower())
    if found is None:
        known = ", ".join(modes)
        raise ConfigError("E315", f"constraints={given!r} is not a mode", f"modes: {known}")
    return found


#: The settings of `watching`: the name, a description of the values, a check.
_WATCHING: dict[str, tuple[str, Callable[[float], bool]]] = {
    "margin": ("a number of at least 1", lambda value: 1 <= value <= 1000),
    "sample": ("a number from 0 to 1", lambda value: 0 <= value <= 1),
    "window": ("a whole number of at least 10", lambda value: value >= 10 and value % 1 == 0),
    "threshold": ("a number above 0, and at most 1", lambda value: 0 < value <= 1),
    "worth": ("a number of at least 0", lambda value: 0 <= value < math.inf),
    "loss": ("a number from 0 to 1", lambda value: 0 <= value <= 1),
}


def watching(given: Watching | Mapping[str, Any] | None) -> Watching:
    """The settings of a session for how joins observe constraints."""
    if given is None or isinstance(given, Watching):
        given = {} if given is None else asdict(given)
    if not isinstance(given, Mapping):
        known = ", ".join(_WATCHING)
        raise ConfigError("E318", f"watching={given!r} is not a mapping", f"settings: {known}")
    for name, value in given.items():
        if name not in _WATCHING:
            known = ", ".join(_WATCHING)
            raise ConfigError("E318", f"watching has no setting {name!r}", f"settings: {known}")
        what, holds = _WATCHING[name]
        if value is None and name in ("margin", "window"):
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not holds(value):
            raise ConfigError("E318", f"watching: {name} = {value!r} is not {what}")
    return Watching(**given)


def of_channels(
    constraints: Iterable[Constraint], channels: Mapping[str, str]
) -> tuple[Constraint, ...]:
    """The constraints of streams as constraints of channels, which are parts of streams.

    A property of a stream holds for each part of it: between two events, a part has at most the
    events of the stream. A published stream is not a channel and keeps its name.
    """
    parts: dict[str, list[str]] = {}
    for channel, stream in channels.items():
        parts.setdefault(stream, []).append(channel)
    return tuple(
        replace(constraint, stream=channel, target=target)
        for constraint in constraints
        for channel in parts.get(constraint.stream, (constraint.stream,))
        for target in _targets(constraint, parts)
    )


def _targets(constraint: Constraint, parts: Mapping[str, list[str]]) -> Iterable[str | None]:
    target = constraint.target
    return (None,) if target is None else parts.get(target, (target,))


def constraint_to_json(constraint: Constraint) -> list[Any]:
    return [
        constraint.name,
        constraint.kind.value,
        constraint.stream,
        list(constraint.attributes),
        constraint.target,
        list(constraint.target_attributes),
        constraint.k,
        constraint.timed,
    ]


def constraint_from_json(saved: list[Any]) -> Constraint:
    name, kind, stream, attributes, target, theirs, k, timed = saved
    of_kind = ConstraintKind(kind)
    return Constraint(name, of_kind, stream, tuple(attributes), target, tuple(theirs), k, timed)
