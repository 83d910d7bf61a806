"""Reports: notices and counts of rejected rows, late rows and failed function calls.

A shard counts them and makes one notice for each reason. `NoticeList` also writes notices to the
log of `braid`, which Python shows on the screen unless the program says otherwise.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from braid.errors import Notice
from braid.operators.core.user_functions import Failures

LOG = logging.getLogger("braid")

#: Reasons of one stream that get a notice each; those after them get one together.
_MOST_REASONS = 16
#: Notices of one code that are written to the log.
_MOST_LOGGED = 20


class Reports:
    """The counts of a shard since the last `take`, and its notices."""

    def __init__(self, failures: Failures, notices: list[Notice]) -> None:
        """`notices`: the list of the shard, to which new notices are appended."""
        self._failures = failures
        self._notices = notices
        self._rejected = 0
        self._notified: set[str] = set()
        self._reasons: Counter[str] = Counter()
        self._fresh: list[Notice] = []

    def reject(self, rows: pa.Table) -> None:
        """Rows that do not fit their stream: columns stream and reason."""
        self._rejected += rows.num_rows
        for kind in rows.group_by(["stream", "reason"]).aggregate([]).to_pylist():
            self._reject(kind["stream"], kind["reason"])

    def count_rejected(self, rows: int) -> None:
        """Count rejected rows that are reported elsewhere."""
        self._rejected += rows

    def _reject(self, stream: str, reason: str) -> None:
        message = f"stream {stream} rejects rows because {reason}"
        if message in self._notified:
            return
        if self._reasons[stream] < _MOST_REASONS:
            self._reasons[stream] += 1
            self._notify("W211", message, "find them in `rejected`")
        else:
            message = f"stream {stream} rejects rows for more reasons than are shown"
            self._notify("W211", message, "find them in `rejected`")

    def late(self, stream: str) -> None:
        self._notify(
            "W213",
            f"events of stream {stream} come later than its LATENESS allows",
            "no query sees them, they are in `late`; declare a longer LATENESS",
        )

    def unshared(self, pairs: Iterable[tuple[str, str, str]]) -> None:
        """Pairs of streams that are declared sharable and are not one channel, with the reason."""
        for name, other, reason in pairs:
            self._notify(
                "W214",
                f"streams {name} and {other} are declared sharable and share nothing",
                f"{reason}; declare it alike in both",
            )

    def _notify(self, code: str, message: str, advice: str) -> None:
        """The text before the colon tells two notices apart, here and between shards."""
        if message not in self._notified:
            self._notified.add(message)
            notice = Notice(code, "", f"{message}: {advice}")
            self._fresh.append(notice)
            self._notices.append(notice)

    def take(self) -> tuple[dict[str, int], list[Notice]]:
        """Counts and notices since the last call."""
        failed, kinds = self._failures.take()
        for function, does, first in kinds:
            advice = f"its value is NULL for such events; the first time it was {first[:200]}"
            self._notify("W212", f"function {function} {does}", advice)
        counts = {"rejected": self._rejected, "failed_calls": failed}
        fresh, self._rejected, self._fresh = self._fresh, 0, []
        return counts, fresh


class NoticeList(list[Notice]):
    """Notices in the order in which they came; each is written to the log when it comes.

    Of the notices of one code only the first ones are logged: a thousand queries of one form may
    all deserve the same one.
    """

    def __init__(self, found: Iterable[Notice] = (), *, log: bool = True) -> None:
        super().__init__()
        self._log = log
        self._logged: Counter[str] = Counter()
        self._added: set[tuple[str, str, str]] = set()
        self.extend(found)

    def append(self, notice: Notice, /) -> None:
        super().append(notice)
        if not self._log:
            return
        self._logged[notice.code] += 1
        count = self._logged[notice.code]
        if count <= _MOST_LOGGED:
            LOG.warning(notice.render())
        elif count == _MOST_LOGGED + 1:
            LOG.warning("more notices %s: they are in `notices`, not in this log", notice.code)

    def extend(self, found: Iterable[Notice], /) -> None:
        for notice in found:
            self.append(notice)

    def add_new(self, found: Iterable[Notice]) -> None:
        """Add notices that are not in the list yet: a new plan and other shards repeat them."""
        for notice in found:
            if notice.about not in self._added:
                self._added.add(notice.about)
                self.append(notice)
