"""When results expire: an equal result that comes at that instant is not new to Istream.

Istream compares the rows of an instant with those of the instant before, by value. A join that has
dropped the events of a result can't find out when the result expires. So it keeps a hash of the values
of every result with the instant at which the result expires. For windows by time that instant is known
when the result comes. For a window by rows, the number of the event that pushes the row out is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from braid.algebra.types import Kind, kind_of
from braid.errors import damaged
from braid.jit.strings import hash_codes
from braid.operators.constraint_join.kernels.result_expiry import (
    canonical_floats,
    combined,
    drop_equal,
    go_once,
)
from braid.operators.constraint_join.spill.file import Place, SpillFile
from braid.operators.core import checks
from braid.operators.core.columns import Rows, nulls_of
from braid.operators.core.values import Values, Words
from braid.plan.specs import Shape

#: Parts of a window that are kept apart.
_PARTS = 64

_NEVER = 2**62 + 1

#: Entries of a part that are written at once.
_ENOUGH = 256


class Calendar:
    """Entries (when, hash and, if there are several ways to go, a number) by when they are due.

    What is due later is in a file, but for the last few of each part.
    """

    def __init__(self, span: int, width: int, file: SpillFile) -> None:
        self._span, self._width, self._file = max(1, span), width, file
        self._parts: dict[int, list[Words]] = {}
        self._written: dict[int, list[Place]] = {}
        #: Of each part the smallest number, and entries in all.
        self._oldest: dict[int, int] = {}
        self.count = 0

    def oldest(self, none: int) -> int:
        """No entry has a smaller number."""
        return min(self._oldest.values(), default=none)

    def add(self, entries: Words) -> None:
        self.count += len(entries)
        parts = entries[:, 0] // self._span
        order = np.arange(len(parts))
        if not (parts[1:] >= parts[:-1]).all():
            order = np.argsort(parts, kind="stable")
        bounds = np.flatnonzero(np.diff(parts[order])) + 1
        for own in np.split(order, bounds):
            if len(own):
                part = int(parts[own[0]])
                waiting = self._parts.setdefault(part, [])
                waiting.append(entries[own])
                if self._width > 2:
                    oldest = int(entries[own, 2].min())
                    self._oldest[part] = min(oldest, self._oldest.get(part, oldest))
                if sum(map(len, waiting)) >= _ENOUGH:
                    self._written.setdefault(part, []).append(self._file.write(*waiting))
                    del self._parts[part]

    def _entries(self, part: int) -> Words:
        found = list(self._parts.get(part, ()))
        for place in self._written.get(part, ()):
            found.append(self._file.read(place, 0, place[1] // 8).reshape(-1, self._width))
        return np.concatenate(found)

    def _take(self, part: int) -> Words:
        entries = self._entries(part)
        for place in self._written.pop(part, ()):
            self._file.free(place)
        self._parts.pop(part, None)
        return entries

    def due(self, before: int) -> Words:
        """Take out what is due before this."""
        found, limit = [], before // self._span
        for part in [p for p in {*self._parts, *self._written} if p <= limit]:
            entries = self._take(part)
            now = entries[:, 0] < before
            found.append(entries[now])
            self.count -= int(np.count_nonzero(now))
            self._oldest.pop(part, None)
            if not now.all():
                self._parts[part] = [entries[~now]]
                if self._width > 2:
                    self._oldest[part] = int(entries[~now, 2].min())
        return np.concatenate(found) if found else np.empty((0, self._width), np.int64)

    def all(self) -> Words:
        parts = [self._entries(part) for part in {*self._parts, *self._written}]
        return np.concatenate(parts) if parts else np.empty((0, self._width), np.int64)

    @property
    def nbytes(self) -> int:
        return sum(entries.nbytes for own in self._parts.values() for entries in own)


#: Each number of a result is due or gone: numbers that are kept span few more than there are.
_SPARSE, _SPARE = 8, 1024


class ResultExpiry:
    """The results of one join, until they go. `sizes`: the longest window by time (None: none),
    and those by rows."""

    def __init__(self, shape: Shape, time: int | None, rows: Sequence[int], values: Values) -> None:
        self._shape, self._values = shape, values
        self._file = SpillFile()
        spans = [0 if time is None else time, *rows]
        self._width = 2 if len(spans) == 1 else 3
        self._calendars = [Calendar(s // _PARTS, self._width, self._file) for s in spans]
        self._next = 0
        #: Whether something has gone already, by number from the first on: there is more than one
        #: way to go. Numbers before the first are of nothing that is still due.
        self._many = len(self._calendars) > 1
        self._gone, self._first = np.zeros(0, np.uint8), 0

    # ---- values ----

    def _hashes(self, rows: Rows) -> Words:
        """A hash of the values of each row; the same whatever codes strings have."""
        layout = self._shape.layout
        found = np.zeros(len(rows), np.int64)
        for column, attribute in enumerate(self._shape.schema.attributes[:-1]):
            words = np.ascontiguousarray(rows[:, layout.base + column])
            kind = kind_of(attribute.type)
            nulls = nulls_of(rows, column)
            if nulls is not None:
                words[nulls] = 0
            if kind is Kind.FLOAT:
                words = canonical_floats(words)
            elif kind is Kind.STRING:
                strings = self._values.strings
                words = hash_codes(strings.offsets, strings.pool, words)
            found = combined(found, words)
            if nulls is not None:
                # Only where there is one: the hash of a row does not depend on those beside it.
                found[nulls] = combined(found[nulls], np.ones(int(nulls.sum()), np.int64))
        return found

    # ---- coming and going ----

    def without_cancelled(
        self, rows: Rows, leaves: Words, bound: int, ends: Sequence[tuple[int, Words]]
    ) -> Rows:
        """What is left of results that come if equal ones go at the same instant.

        `leaves`: when each goes, by time and by the numbers of events. `ends`: of each window by
        rows, the number of events before this batch, and the ends of those that have come with it.
        """
        hashes = self._hashes(rows)
        limits = [bound, *(before + len(times) + 1 for before, times in ends)]
        soon: list[Words | None] = [None] * len(limits)
        if len(rows):
            numbers = np.arange(self._next, self._next + len(rows))
            self._next += len(rows)
            if self._many:
                self._gone = np.append(self._gone, np.zeros(len(rows), np.uint8))
            for place, (calendar, own) in enumerate(zip(self._calendars, leaves.T, strict=True)):
                entries = np.empty((len(rows), self._width), np.int64)
                entries[:, 0], entries[:, 1] = own, hashes
                entries[:, 2:] = numbers[:, None]
                # Most of what comes and goes with a batch that is longer than the window.
                now = own < min(limits[place], _NEVER)
                soon[place] = entries[now]
                calendar.add(entries[~now & (own < _NEVER)])
        expired = self._expired(limits, soon, ends)
        if not len(rows) or not len(expired):
            return rows
        return rows[
            drop_equal(hashes, rows[:, 1].copy(), expired[:, 1].copy(), expired[:, 0].copy())
        ]

    def _expired(
        self,
        limits: Sequence[int],
        soon: Sequence[Words | None],
        ends: Sequence[tuple[int, Words]],
    ) -> Words:
        """What goes before the limits, also of what has just come: when, hash, number."""
        found = []
        for calendar, limit, own in zip(self._calendars, limits, soon, strict=True):
            due = calendar.due(limit)
            found.append(due if own is None else np.concatenate([due, own]))
        for place, (before, times) in enumerate(ends, 1):
            due = found[place]
            found[place] = np.column_stack([times[due[:, 0] - before - 1], due[:, 1:]])
        if not self._many:
            return found[0]
        expired = np.concatenate(found)
        expired = expired[go_once(expired, self._gone, self._first)]
        if len(self._gone) > 1024 and self._waiting < len(self._gone):
            self._forget_past()
        return expired

    @property
    def _waiting(self) -> int:
        return sum(calendar.count for calendar in self._calendars)

    def _forget_past(self) -> None:
        """Forget what has gone of numbers before all that are still due."""
        first = min(calendar.oldest(self._next) for calendar in self._calendars)
        self._gone = self._gone[first - self._first :].copy()
        self._first = first

    # ---- beside another join ----

    def cancel(self, rows: Rows, bound: int) -> Rows:
        """Results of a join that knows itself what goes, but for what is here: each that is equal to
        one of these which goes at its instant counts one less. Windows are by time."""
        expired = self._calendars[0].due(bound)
        if not len(expired) or not len(rows):
            return rows
        weights = np.maximum(rows[:, -1], 0)
        each = np.repeat(np.arange(len(rows)), weights)
        times = rows[each, 1].copy()
        kept = drop_equal(
            self._hashes(rows)[each], times, expired[:, 1].copy(), expired[:, 0].copy()
        )
        if kept.all():
            return rows
        rows = rows.copy()
        rows[:, -1] -= np.bincount(each[~kept], minlength=len(rows))
        return rows[rows[:, -1] != 0]

    def forget(self) -> None:
        for calendar in self._calendars:
            calendar.due(2**63 - 1)

    def entries(self) -> Words:
        """What is due by time: when, and the hash."""
        return self._calendars[0].all()[:, :2]

    def keep_others(self, own: Words, known: Words) -> None:
        """Have these entries instead, less one for each that is known elsewhere."""
        self.forget()
        if len(own):
            times, hashes = np.ascontiguousarray(own.T)
            kept = drop_equal(hashes, times, known[:, 1].copy(), known[:, 0].copy())
            self._calendars[0].add(own[kept])

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    # ---- state ----

    def saved(self) -> list[Words]:
        gone = self._first + np.flatnonzero(self._gone)
        return [*(calendar.all() for calendar in self._calendars), gone]

    def _check(self, saved: Sequence[Words], arrived: Sequence[int]) -> None:
        """What goes with an event goes with one that has not come; numbers are near each other."""
        if len(saved) != len(self._calendars) + 1:
            raise damaged("results that are to go are of other windows")
        parts = [checks.table({"results": own}, "results", self._width) for own in saved[:-1]]
        for own, before in zip(parts[1:], arrived, strict=True):
            checks.within(own[:, 0], before + 1, 2**63 - 1, "events with which results go")
        if self._many:
            numbers = np.concatenate([own[:, 2] for own in parts])
            checks.within(numbers, 0, checks.NUMBERS, "numbers of results")
            most = _SPARE + _SPARSE * (len(numbers) + len(saved[-1]))
            if len(numbers) and int(numbers.max()) - int(numbers.min()) > most:
                raise damaged("numbers of results are too far from each other")

    def take(self, saved: Sequence[Words], arrived: Sequence[int]) -> None:
        """Results that are to go. `arrived`: how many events each window by rows has seen."""
        self._check(saved, arrived)
        for calendar, entries in zip(self._calendars, saved, strict=False):
            calendar.due(2**63 - 1)
            if len(entries):
                calendar.add(entries.reshape(-1, self._width))
        if self._many:
            numbers = np.concatenate([e.reshape(-1, 3)[:, 2] for e in saved[:-1]])
            self._next = 1 + int(numbers.max(initial=-1))
            self._first = int(numbers.min(initial=self._next))
            self._gone = np.zeros(self._next - self._first, np.uint8)
            gone = saved[-1][(saved[-1] >= self._first) & (saved[-1] < self._next)]
            self._gone[gone - self._first] = 1

    @property
    def nbytes(self) -> int:
        return sum(calendar.nbytes for calendar in self._calendars) + self._gone.nbytes

    @property
    def file_bytes(self) -> int:
        return self._file.nbytes
