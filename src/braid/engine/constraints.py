"""Declared constraints on their way to a plan, a snapshot or a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from braid.algebra.constraints import Constraint, ConstraintKind, ConstraintMode
from braid.errors import ConfigError


def constraint_mode(given: str | ConstraintMode) -> ConstraintMode:
    """What a session says that joins may do with constraints."""
    if isinstance(given, ConstraintMode):
        return given
    modes = {mode.value: mode for mode in ConstraintMode}
    found = modes.get(str(given).lower())
    if found is None:
        known = ", ".join(modes)
        raise ConfigError("E315", f"constraints={given!r} is not a mode", f"modes: {known}")
    return found


def of_channels(
    constraints: Iterable[Constraint], channels: Mapping[str, str]
) -> tuple[Constraint, ...]:
    """The constraints of the streams as constraints of the channels that are parts of them.

    What holds of a stream holds of each part of it: of the events between two others, a part has
    no more than the stream.
    """
    parts: dict[str, list[str]] = {}
    for channel, stream in channels.items():
        parts.setdefault(stream, []).append(channel)
    return tuple(
        replace(constraint, stream=channel, target=target)
        for constraint in constraints
        for channel in parts.get(constraint.stream, ())
        for target in _targets(constraint, parts)
    )


def _targets(constraint: Constraint, parts: Mapping[str, list[str]]) -> Iterable[str | None]:
    return (None,) if constraint.target is None else parts.get(constraint.target, ())


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
