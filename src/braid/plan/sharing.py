"""Sharing: the operators that rules inspect, and the m-op that they assign to each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from braid.plan.specs import Shape

SELECT, PROJECT, UNION, SAME_TIME = "select", "project", "union", "same time"
SEQUENCE, ITERATE = "sequence", "iterate"
WINDOW, JOIN, GROUP, TO_STREAM = "window", "join", "group", "to stream"
WINDOW_JOIN = "window join"
ATTRIBUTE_JOIN = "attribute join"
BUFFER, GROUPING = "buffer", "grouping"
DETECT = "detect"
DOCUMENTS = "documents"
K_JOIN = "constraint join"
SELECTION_JOIN = "selection join"
WATCH = "watch"


@dataclass(frozen=True)
class Channel:
    """What an operator reads. `stage`: whose members its events belong to, if they have any."""

    signature: str
    shape: Shape
    stage: int | None = None

    @property
    def membered(self) -> bool:
        return self.stage is not None


@dataclass(frozen=True)
class Operator:
    """An operator before it is shared: its kind, what it reads, what it does, its constants.

    `definition` says what it does with the constants left out; two operators do the same if
    definition and constants are equal.
    """

    kind: str
    inputs: tuple[Channel, ...]
    definition: tuple[Any, ...]
    constants: tuple[Any, ...]


@dataclass(frozen=True)
class Sharing:
    """With whom an operator shares an m-op: with all whose `key` is the same.

    An operator that no rule applies to is alone: its key has the query in it. `flags` are
    fields of the spec that rules set, `rules` the names of those that applied.
    """

    key: tuple[Any, ...]
    alone: bool = True
    flags: dict[str, Any] = field(default_factory=dict)
    rules: tuple[str, ...] = ()

    def by(self, rule: str, key: tuple[Any, ...], **flags: Any) -> Sharing:
        return Sharing(key, False, {**self.flags, **flags}, (*self.rules, rule))

    def flagged(self, rule: str, **flags: Any) -> Sharing:
        return replace(self, flags={**self.flags, **flags}, rules=(*self.rules, rule))


@dataclass(frozen=True)
class Rule:
    """An m-rule: where its condition holds, operators with the key that its action gives merge.

    The condition speaks of one operator and the action names the set: all operators to which
    the action gives the same key are replaced by one m-op.
    """

    name: str
    condition: Callable[[Operator], bool]
    action: Callable[[Operator, Sharing], Sharing]
    says: str


@lru_cache(1 << 14)
def signature(key: tuple[Any, ...], flags: tuple[tuple[str, Any], ...] = ()) -> str:
    """The name of what is equal in these: the same in every process."""
    text = repr((key, list(flags)))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
