"""What a join reports of a constraint that it watches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.constraints import Constraint
from braid.algebra.types import Kind, kind_of
from braid.distribution.keys import split_channel
from braid.errors import damaged
from braid.operators.constraint_join.fields import Records
from braid.operators.constraint_join.kernels.records import (
    ASCENDS,
    BROKEN,
    CLUSTERS,
    DESCENDS,
    WAITS,
    Watch,
)
from braid.operators.constraint_join.kernels.watch import ENDLESS
from braid.operators.constraint_join.spec import ConstraintJoinSpec
from braid.operators.core import checks
from braid.operators.core.columns import array_of
from braid.operators.core.values import Values, Words
from braid.operators.join.probe_orders import Key, Lookup

#: Values of k that are remembered.
_HISTORY = 32

_NAMES = {
    WAITS: "references",
    ASCENDS: "ascending",
    DESCENDS: "descending",
    CLUSTERS: "clustered",
}


@dataclass(frozen=True)
class Measured:
    """Of a constraint: bytes of the rows that it lets go, the part of memory that it saves and of the
    time that it takes, how often it was given up since it was not worth that."""

    width: int
    saved: float
    cost: float
    refused: int


@dataclass(frozen=True)
class Broken:
    """A declared constraint that an event has broken: the first one that did, of which stream, when,
    its value, and by how much (not of a key)."""

    constraint: str
    said: str
    stream: str
    event: int
    at: int
    attribute: str
    value: str
    distance: int | None = None
    unit: str = "rows"

    @staticmethod
    def of(
        constraint: Constraint,
        stream: str,
        event: tuple[int, int],
        values: Mapping[str, str],
        distance: int | None,
    ) -> Broken:
        """By an event of a stream: its number, when it came, its values by attribute. A shard sees
        parts of streams; the report is about the streams."""
        target = constraint.target and split_channel(constraint.target)[0]
        declared = replace(constraint, stream=split_channel(constraint.stream)[0], target=target)
        names, shown = ", ".join(values), ", ".join(values.values())
        return Broken(
            constraint.name,
            declared.describe(),
            split_channel(stream)[0],
            *event,
            names if len(values) == 1 else f"({names})",
            shown if len(values) == 1 else f"({shown})",
            distance,
            "units of time" if constraint.timed else "rows",
        )

    def describe(self) -> str:
        """What has happened, in words."""
        which = (
            f"event {self.event:,} of {self.stream}, {self.attribute} = {self.value} at {self.at}"
        )
        how = "is the second of its key"
        if self.distance is not None:
            how = f"misses it by {self.distance:,} {self.unit}"
        return f"constraint '{self.constraint}' ({self.said}) does not hold: {which}, {how}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Broken:
        return Broken(**json.loads(text))


@dataclass
class Found:
    """What was found out about a constraint in the course of time."""

    declared: str | None = None
    #: The name of the declared constraint.
    name: str | None = None
    history: list[tuple[int, int | None]] = field(default_factory=list)

    def note(self, now: int, k: int) -> None:
        """Remember k if it has changed; one without end is None."""
        shown = None if k >= ENDLESS else k
        if (self.history[-1][1] if self.history else None) != shown:
            self.history = [*self.history[1 - _HISTORY :], (now, shown)]


def saved_history(found: Sequence[Found]) -> Words:
    """What was found in the course of time: the watch, when, k (-1 without end)."""
    return np.array(
        [
            word
            for number, one in enumerate(found)
            for now, k in one.history
            for word in (number, now, -1 if k is None else k)
        ],
        np.int64,
    )


def take_history(found: Sequence[Found], saved: Words) -> None:
    for one in found:
        one.history = []
    for number, now, k in saved.reshape(-1, 3).tolist():
        found[number].history.append((now, None if k < 0 else k))


#: Fields of a watch that don't change while it runs.
_FIXED = ["kind", "input", "column", "example"]


def saved_watches(saved: Words, own: Records) -> Records:
    """Watches that were saved, checked: they have the kinds, inputs and columns of those here."""
    words = checks.table({"watches": saved}, "watches", Watch.stride // 8)
    checks.sized(words, len(own), "watches")
    watches: Records = np.ascontiguousarray(words).view(Watch.dtype)[:, 0]
    if (watches[_FIXED] != own[_FIXED]).any():
        raise damaged("a watch is of something else")
    checks.within(watches["timed"], 0, 2, "watches")
    checks.within(watches["declared"], 0, 3, "watches")
    checks.within(watches["room"], 0, 1 << 32, "tables of watches")
    if (watches["room"] & (watches["room"] - 1)).any():
        raise damaged("the table of a watch has another size")
    checks.within(watches["entries"], 0, 1 << 32, "entries of watches")
    if (watches["entries"] > watches["room"]).any():
        raise damaged("the table of a watch has more entries than rows")
    return watches


def shown_value(word: int, type_: pa.DataType, values: Values) -> str:
    """A value of an event as it is written in a message."""
    if kind_of(type_) is Kind.STRING:
        return repr(values.strings.array(np.array([word], np.int64), None)[0].as_py())
    if kind_of(type_) in (Kind.DATE, Kind.TIMESTAMP) and pa.types.is_temporal(type_):
        stored = pa.array([word], pa.int64())
        width = pa.int32() if pa.types.is_date32(type_) else pa.int64()
        return str(stored.cast(width).cast(type_)[0])
    if kind_of(type_) in (Kind.FLOAT, Kind.DECIMAL, Kind.BOOLEAN):
        return str(array_of(np.array([word], np.int64), None, type_, values)[0].as_py())
    return str(word)


def reason_in_words(
    spec: ConstraintJoinSpec,
    keys: Sequence[Key],
    what: Sequence[tuple[int, int, int]],
    lookups: Sequence[Lookup],
    reason: int,
) -> str:
    """Why rows of a join were dropped (`kernels/eviction.py`): what was believed to hold. `what`: of each
    watch its kind, its input, and the column or the input that waits."""
    names = [split_channel(str(s or n))[0] for n, (s, _) in enumerate(spec.names)]
    if reason < len(what):
        kind, input_, other = what[reason]
        if kind == WAITS:
            return f"{names[other]} {_NAMES[kind]} {names[input_]}"
        return f"{names[input_]} ({spec.inputs[input_].layout.names[other]}) {_NAMES[kind]}"
    reason -= len(what)
    if reason < len(names):
        return f"a row of {names[reason]} has one result"
    number, of_key = lookups[reason - len(names)]
    shown = [spec.inputs[number].layout.names[keys[k].columns[number][0]] for k in of_key]
    return f"{names[number]} ({', '.join(shown)}) key"


def shown_watch(
    watch: Any, found: Found, input_: int, about: str | int, measured: Measured
) -> dict[str, Any] | None:
    """A constraint as `explain` and statistics show it; None if there is nothing to say.

    `input`: whose events it is about; `waiting`: the input whose rows wait for them, or `column`.
    """
    k, gone = int(watch["k"]), int(watch["evicted"])
    if k >= ENDLESS and not (gone or found.history or measured.refused or found.declared):
        return None
    waits = watch["kind"] == WAITS
    shown: dict[str, Any] = {
        "kind": _NAMES[int(watch["kind"])],
        "input": input_,
        "waiting" if waits else "column": about,
        "k": None if k >= ENDLESS else k,
        "unit": "time" if watch["timed"] else "rows",
        "history": [list(entry) for entry in found.history],
        "rows": gone,
        "bytes": gone * measured.width,
        "saved": round(measured.saved, 4),
        "cost": round(measured.cost, 4),
        "refused": measured.refused,
        "increases": int(watch["breaks"]),
    }
    if found.declared is not None:
        shown["declared"] = found.declared
        if watch["declared"] == BROKEN:
            shown["broken"] = {
                "event": int(watch["breaker"]),
                "at": int(watch["broken_at"]),
            }
    return shown
