"""The meaning of names: decorators, suffixes, and the input that has an attribute.

A stream's attributes have the names of its schema. If NEXT gives *all* attributes of its first
input the suffix `_1`, then those that only that input has also keep the name without it. These
names are `aliases`, and a schema's name takes precedence over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from braid.algebra.expressions import Duration, Expression, Ref, Source
from braid.algebra.nodes import Node
from braid.algebra.schema import TICKS, Schema
from braid.algebra.types import BIGINT, DURATION
from braid.lang.parse import syntax
from braid.lang.parse.problems import At, Problem, alternatives, listing, similar

Aliases = Mapping[str, tuple[str, ...]]
_NO_ALIASES: Aliases = {}


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound stream: its node, its label for messages, and its aliases.

    `times` are the time columns of a declared stream, which are not attributes; they only serve
    messages. `sequence` is its sequence column, `documents` those of a document type and `json` the
    JSON ones of these.
    """

    node: Node
    label: str
    aliases: Aliases = field(default_factory=dict)
    times: tuple[str, ...] = ()
    sequence: str | None = None
    documents: tuple[str, ...] = ()
    json: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        return self.node.schema

    def knows(self, name: str) -> bool:
        return name in self.node.schema or name in self.aliases

    def real(self, name: syntax.Name) -> str | None:
        """The schema's name for a name as written; None if it doesn't exist."""
        if name.name in self.node.schema:
            return name.name
        targets = self.aliases.get(name.name, ())
        if len(targets) > 1:
            hint = f"it could be {' or '.join(targets)}"
            raise Problem("E107", f"{name.name!r} is ambiguous", name.at, hint)
        return targets[0] if targets else None

    def ref(self, source: Source, name: syntax.Name) -> Ref:
        real = self.real(name)
        if real is None and name.name in self.times:
            hint = f"{name.name} is the time of {self.label}; DUR is how long an event lasts"
            raise Problem("E103", f"{name.name!r} is not an attribute", name.at, hint)
        if real is None:
            known = alternatives(f"attributes of {self.label}", name.name, self.schema.names)
            raise Problem("E103", f"{self.label} has no attribute {name.name!r}", name.at, known)
        return Ref(source, real, self.schema.type_of(real))


def duration_of(unit: str) -> Duration:
    return Duration(BIGINT if unit == TICKS else DURATION)


class Scope(Protocol):
    """The meaning of the names of one expression."""

    @property
    def unit(self) -> str: ...

    def resolve(self, name: syntax.Name) -> Expression: ...

    def duration(self, at: At) -> Expression: ...


@dataclass(frozen=True, slots=True)
class InputScope:
    """The one input of FILTER, SELECT or SAMETIME (`place`)."""

    input: Bound
    place: str

    @property
    def unit(self) -> str:
        return self.input.node.unit

    def resolve(self, name: syntax.Name) -> Expression:
        if name.decorator is not None:
            self._check_decorator(name)
        return self.input.ref(Source.INPUT, name)

    def duration(self, at: At) -> Expression:
        if self.place == "SAMETIME":
            hint = "name it below: SAMETIME{...}(SELECT *, DUR AS dur FROM ...)"
            raise Problem("E115", "DUR cannot be used in SAMETIME", at, hint)
        return duration_of(self.unit)

    def _check_decorator(self, name: syntax.Name) -> None:
        if self.place == "SELECT":
            meant = [n for n in (f"{name.name}_1", name.name) if self.input.knows(n)]
            hint = f"names of the result: {listing(meant or self.input.schema.names)}"
            message = f"{name.decorator}.{name.name}: SELECT takes names without decorators"
            raise Problem("E115", message, name.at, hint)
        if name.decorator != "$1":
            message = f"{name.decorator}.{name.name}: {self.place} has one input only"
            raise Problem("E115", message, name.at, f"write {name.name}, or $1.{name.name}")


@dataclass(frozen=True, slots=True)
class NextScope:
    """The two inputs of NEXT."""

    first: Bound
    second: Bound

    @property
    def unit(self) -> str:
        return self.first.node.unit

    def resolve(self, name: syntax.Name) -> Expression:
        match name.decorator:
            case None:
                return self._undecorated(name)
            case "$1":
                return self.first.ref(Source.FIRST, name)
            case "$2":
                return self.second.ref(Source.SECOND, name)
            case _:
                raise _bad_decorator(name, "NEXT", "$1 or $2")

    def duration(self, at: At) -> Expression:
        return duration_of(self.unit)

    def _undecorated(self, name: syntax.Name) -> Expression:
        sources = [(Source.FIRST, self.first), (Source.SECOND, self.second)]
        found = [s for s in sources if name.name in s[1].schema]
        found = found or [s for s in sources if s[1].knows(name.name)]
        if len(found) > 1:
            hint = f"write $1.{name.name} or $2.{name.name}"
            raise Problem("E107", f"both inputs of NEXT have {name.name!r}", name.at, hint)
        if not found:
            raise _in_neither("NEXT", name, self.first, self.second)
        source, bound = found[0]
        return bound.ref(source, name)


@dataclass(frozen=True, slots=True)
class FoldScope:
    """The two inputs of FOLD and the values of its last iteration.

    `last` are the attributes of `$.`; `updated` are the names of the aggregates.
    """

    first: Bound
    second: Bound
    last: Schema
    updated: frozenset[str]

    @property
    def unit(self) -> str:
        return self.first.node.unit

    def resolve(self, name: syntax.Name) -> Expression:
        match name.decorator:
            case None:
                return self._undecorated(name)
            case "$1":
                return self.first.ref(Source.FIRST, name)
            case "$2":
                return self.second.ref(Source.SECOND, name)
            case "$":
                return self._from_last(name)
            case _:
                raise _bad_decorator(name, "FOLD", "$1, $2 or $")

    def duration(self, at: At) -> Expression:
        return duration_of(self.unit)

    def _undecorated(self, name: syntax.Name) -> Expression:
        word = name.name
        if word in self.updated:
            return self._from_last(name)
        if word in self.second.schema:
            hint = f"write $1.{word}, $2.{word}, or $.{word} for the last iteration"
            raise Problem("E107", f"both inputs of FOLD have {word!r}", name.at, hint)
        if self.first.knows(word):
            return self.first.ref(Source.FIRST, name)
        if self.second.knows(word):
            return self.second.ref(Source.SECOND, name)
        raise _in_neither("FOLD", name, self.first, self.second)

    def _from_last(self, name: syntax.Name) -> Expression:
        word = name.name
        if word in self.last:
            return Ref(Source.LAST, word, self.last.type_of(word))
        if word in self.updated:
            hint = f"start it in the first input: (SELECT *, 0 AS {word} FROM ...) FOLD{{...}}"
            message = f"{word!r} has no value before the first iteration"
            raise Problem("E103", message, name.at, hint)
        if self.first.knows(word):
            hint = f"it stays the same from iteration to iteration: write $1.{word}"
            raise Problem("E103", f"the last iteration has no attribute {word!r}", name.at, hint)
        hint = alternatives("attributes of the last iteration", word, self.last.names)
        raise Problem("E103", f"the last iteration has no attribute {word!r}", name.at, hint)


def _bad_decorator(name: syntax.Name, place: str, allowed: str) -> Problem:
    message = f"{name.decorator}.{name.name}: the decorators of {place} are {allowed}"
    hint = "$. is the last iteration of FOLD" if name.decorator == "$" else None
    return Problem("E115", message, name.at, hint)


def _in_neither(place: str, name: syntax.Name, first: Bound, second: Bound) -> Problem:
    guess = similar(name.name, (*first.schema.names, *second.schema.names))
    known = f"$1 has {listing(first.schema.names)}; $2 has {listing(second.schema.names)}"
    hint = f"did you mean {guess}? {known}" if guess else known
    return Problem("E103", f"neither input of {place} has {name.name!r}", name.at, hint)


# --- names of results ---


def next_names(first: Bound, second: Bound, at: At) -> tuple[tuple[str, ...], Aliases]:
    """The output names of NEXT. If any collide, all of the first input's get `_1`."""
    ours, theirs = first.schema.names, second.schema
    if not any(name in theirs for name in ours):
        names = (*ours, *theirs.names)
        return names, _merge(names, first.aliases, second.aliases)
    renamed = {name: f"{name}_1" for name in ours}
    clash = [name for name in renamed.values() if name in theirs]
    if clash:
        raise _duplicate(f"NEXT would have {listing(clash)} twice", at)
    short = {name: (new,) for name, new in renamed.items() if name not in theirs}
    names = (*renamed.values(), *theirs.names)
    return names, _merge(names, short, _renamed(first.aliases, renamed), second.aliases)


def fold_aliases(first: Bound, second: Bound, names: Iterable[str]) -> Aliases:
    """In FOLD only common names get `_1`, so it adds no aliases."""
    if not first.aliases and not second.aliases:
        return _NO_ALIASES
    renamed = {n: f"{n}_1" if n in second.schema else n for n in first.schema.names}
    return _merge(names, _renamed(first.aliases, renamed), second.aliases)


def _renamed(aliases: Aliases, renamed: Mapping[str, str]) -> Aliases:
    return {a: tuple(renamed[t] for t in targets) for a, targets in aliases.items()}


def _merge(names: Iterable[str], *sets: Aliases) -> Aliases:
    if not any(sets):
        return _NO_ALIASES
    real = set(names)
    merged: dict[str, tuple[str, ...]] = {}
    for aliases in sets:
        for alias, targets in aliases.items():
            if alias not in real:
                merged[alias] = tuple(dict.fromkeys((*merged.get(alias, ()), *targets)))
    return merged


def _duplicate(message: str, at: At) -> Problem:
    hint = "rename in a sub-query: (SELECT Price AS first_price, ... FROM ...)"
    return Problem("E108", message, at, hint)
