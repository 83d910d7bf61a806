"""Requested changes of a running job: one file for each, in the job's control directory.

The running job reads the directory as a stream. A change is a line of JSON:

    {"seq": 1, "op": "add", "id": "jump", "text": "SELECT ...", "at": "2024-01-31T09:00:00Z"}
    {"seq": 2, "op": "drop", "id": "jump", "text": null, "at": null}

`at` is an event time: a timestamp, or a number where all streams count ticks; without it the
change takes effect where the job is when it reads it. `seq` orders changes that are read together.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta

from braid.algebra.schema import MICROSECONDS, TICKS
from braid.cli import places
from braid.cli.job import Job
from braid.errors import BraidError, ConfigError, Notice, Origin
from braid.lang import Catalog, compile_query
from braid.lang.parse.limits import quoted, whole_number

#: The schema of the lines, without `at`.
SCHEMA = "seq BIGINT, op STRING, id STRING, text STRING"

#: The results of changes, in the job's checkpoint.
LOG = "braid/changes"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Change:
    """`at`: a timestamp in ISO form, or a number of ticks."""

    op: str
    id: str
    text: str | None = None
    at: str | int | None = None
    #: The number of the change in the job's log.
    seq: int | None = None


@dataclass(frozen=True)
class ChangeResult:
    """What the job made of a change: "applied" at an event time, "waiting", "refused"."""

    op: str
    id: str
    seq: int | None
    state: str
    #: The time in the form of a change; None if it was not applied, or holds from the beginning.
    at: str | int | None
    reason: str | None


def directory(job: Job) -> str:
    if job.control is None:
        hint = 'add to the job file: [control] path = "changes"'
        raise ConfigError("E464", f"{job.file}: the job accepts no changes while it runs", hint)
    return job.control


def request(job: Job, change: Change) -> Change:
    """Write a change for the running job. Names of files are in order of time."""
    now = time.time_ns()
    line = {"seq": now, "op": change.op, "id": change.id, "text": change.text, "at": change.at}
    name = f"{now:020d}-{uuid.uuid4().hex[:8]}.json"
    places.write_text(directory(job), name, json.dumps(line) + "\n")
    return replace(change, seq=now)


def requested(job: Job) -> list[Change]:
    """All requested changes, in order."""
    folder = directory(job)
    found: list[Change] = []
    for name in places.names(folder):
        for line in (places.read_text(f"{folder}/{name}") or "").splitlines():
            if line.strip():
                found.append(_read(f"{folder}/{name}", line))
    return found


def _read(where: str, line: str) -> Change:
    try:
        data = json.loads(line)
        return Change(data["op"], data["id"], data.get("text"), data.get("at"), data.get("seq"))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError("E463", f"{where} is not a change: {error!r}") from None


class Log:
    """The results of changes: a file in the job's checkpoint for each batch with changes."""

    def __init__(self, job: Job) -> None:
        self._folder = None if job.checkpoint is None else f"{job.checkpoint.rstrip('/')}/{LOG}"
        self._read: dict[str, list[ChangeResult]] = {}

    def skip(self) -> None:
        """Skip the present results, which are about earlier changes."""
        self._read = {name: [] for name in self._names()}

    def of(self, change: Change) -> ChangeResult | None:
        """The latest result of a change; None if the job has not logged it."""
        for name in self._names():
            if name not in self._read:
                self._read[name] = _taken(f"{self._folder}/{name}")
        found = [
            one
            for taken in self._read.values()
            for one in taken
            if (one.op, one.id, one.seq) == (change.op, change.id, change.seq)
        ]
        return found[-1] if found else None

    def _names(self) -> list[str]:
        return [] if self._folder is None else places.names(self._folder)


def _taken(where: str) -> list[ChangeResult]:
    found = []
    for line in (places.read_text(where) or "").splitlines():
        try:
            data = json.loads(line)
            found.append(
                ChangeResult(**{field.name: data[field.name] for field in fields(ChangeResult)})
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError("E463", f"{where} is not a log of changes: {error!r}") from None
    return found


def apply(change: Change, catalog: Catalog) -> tuple[Notice, ...]:
    """Apply the change to the catalog; raises its error."""
    if change.op == "drop":
        catalog.remove_query(change.id)
        return ()
    origin = Origin(query=change.id)
    registered = compile_query(change.text or "", catalog, query_id=change.id, origin=origin)
    catalog.add_query(registered.query)
    return registered.notices


def replay(changes: Iterable[Change], catalog: Catalog) -> dict[Change, str]:
    """Apply changes in order. Returns the reasons of those that the job refuses too."""
    refused: dict[Change, str] = {}
    for change in changes:
        try:
            apply(change, catalog)
        except BraidError as error:
            refused[change] = f"[{error.code}] {error.message}"
    return refused


def unit_of(catalog: Catalog) -> str:
    """The unit of `at`: ticks only if all streams count ticks, as for the job."""
    units = {stream.unit for stream in catalog.streams.values()}
    return TICKS if units == {TICKS} else MICROSECONDS


def event_time(text: str | None, unit: str) -> str | int | None:
    """`--at`: a date and time (UTC unless it says otherwise) or a number: ticks, or microseconds."""
    if text is None:
        return None
    number = whole_number(text)
    if number is not None and not -(2**63) <= number < 2**63:
        raise ConfigError("E465", f"--at {quoted(text)} is out of the range of times")
    if unit == TICKS:
        if number is None:
            hint = "the streams of this job count ticks: give a number"
            raise ConfigError("E465", f"--at {text!r} is not a number", hint)
        return number
    try:
        moment = datetime.fromisoformat(text) if number is None else None
        if moment is None:
            moment = _EPOCH + timedelta(microseconds=number or 0)
    except (ValueError, OverflowError):
        hint = "for example 2024-01-31T09:00:00Z, or a number of microseconds since 1970"
        raise ConfigError("E465", f"--at {text!r} is not a time", hint) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
