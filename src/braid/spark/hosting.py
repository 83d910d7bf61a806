"""Which engine a worker process runs a shard with, and what it leaves in the state store.

In a streaming job a shard is a group of Spark's `transformWithState`; its pages live in the state
store, and Spark decides with its checkpoint which version of them is the true one. A worker keeps
the engines that it ran, because making one costs more than a small batch. Such a live engine is
used as it is only if it is exactly what the store has: every run writes a fresh token beside the
pages, and an engine is kept under the token it wrote. A batch that is run again after a failure,
or by another worker, finds another token, and the state is read from the store.

What takes long to make is what an engine knows of the queries, and that is kept: an engine that
fell behind, because another worker had the shard meanwhile, takes its state from the store. Spark
gives tasks to whichever worker is free, so that workers often change shards; where all shards have
the same queries, an engine of another shard will do as well. It is taken if this worker has not
run it in the batch at hand: then another one does, and its state is of the past. So a worker has
as many engines as it runs shards in a batch, not as there are shards.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark import TaskContext

from braid.spark.envelopes import PACKED, REFUSED, REJECTED, Rows, open_payload
from braid.spark.shards import Arrivals, Hosted, ShardJob, add_stats
from braid.spark.shipping import Shipped, settle

if TYPE_CHECKING:
    from braid.engine.pages import Delta

#: Live engines that a worker process keeps.
MAX_LIVE = 32

#: The pages that say how the shard's state was distributed; the others are the engine's.
PLAN_PAGE = "~plan/"
PLAN_BYTES = 1 << 20

#: The page that says which run wrote the state.
RUN_PAGE = "~run"


@dataclass(frozen=True)
class Kept:
    """An engine with the job that it runs, the token that it wrote, and the stage it ran in."""

    job: str
    token: str
    stage: int
    hosted: Hosted


#: By pipeline and shard, the one that was used last at the end.
_LIVE: OrderedDict[tuple[str, int], Kept] = OrderedDict()


def _stage() -> int:
    """The stage that this task belongs to: every batch has another."""
    context = TaskContext.get()
    return int(context.stageId()) if context is not None else 0


def _batch() -> int | None:
    """The number of the batch that this task belongs to, if Spark says it."""
    context = TaskContext.get()
    text = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    return None if text is None else int(text)


class Hosting:
    """What a task does for the shards that it has: their pages and tokens are Spark's state."""

    def __init__(self, job: Shipped[ShardJob], pipeline: str, token: Any, pages: Any) -> None:
        self._job = job
        self._pipeline = pipeline
        self._token = token
        self._pages = pages
        self._stage = _stage()
        #: Whether this task made an engine.
        self._is_new = False
        #: The pages of the plan in the store, if another job wrote them.
        self._old_plan: dict[str, bytes] | None = {}

    def run(self, label: int, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Give a shard its envelopes; what comes out of it, packed."""
        hosted, is_live = self._shard(label)
        job = self._job.open()
        if job.begins is not None and _batch() in job.begins:
            # Time that passed between runs makes nobody idle. It is by the number of the batch,
            # so that a batch which runs again does the same, in whichever run.
            hosted.shard.resume()
        arrivals = Arrivals(hosted, job.arriving, along=job.distribution.along)
        out = Rows(PACKED)
        for frame in rows:
            for kind, name, time, count, payload, now in _envelopes(frame):
                if kind == REJECTED:
                    out.add(REFUSED, name, count, batches=open_payload(payload))
                else:
                    arrivals.take(kind, name, time, count, payload, now)
        emission = arrivals.run()
        job.pack(label, emission, out)
        job.pack_changes(label, arrivals.outcome, out)
        saved = self._save(label, hosted, loaded=not is_live)
        numbers = {
            **emission.stats,
            "events": arrivals.events,
            "envelopes": arrivals.envelopes,
            "saved_bytes": saved,
            "restored": 0 if is_live else 1,
        }
        add_stats(out, job.shard(label), numbers, emission.suspended, hosted, arrivals.outcome)
        yield out.batch().to_pandas()
        if self._is_new:
            settle()

    # ---- which engine ----

    def _shard(self, label: int) -> tuple[Hosted, bool]:
        """The engine in the state that the store has, and whether it was alive."""
        stored = self._token.get() if self._token.exists() else None
        # Taken out: should this run fail, what it did to the engine must not be seen again.
        known = _LIVE.pop((self._pipeline, label), None)
        if known is not None and known.job != self._job.id:
            known = None
        if known is not None and stored is not None and known.token == stored[0]:
            return known.hosted, True
        job = self._job.open()
        if stored is None:
            self._is_new = True
            return job.fresh(label), False
        pages, is_own = self._read()
        if is_own:
            hosted = known.hosted if known is not None else self._taken_over(job)
            if hosted is not None and job.follow(hosted, pages):
                return hosted, False
            del hosted
        del known
        self._is_new = True
        plan = None if self._old_plan is None else b"".join(self._old_plan.values())
        return job.restored(label, pages, plan), False

    def _taken_over(self, job: ShardJob) -> Hosted | None:
        """An engine of another shard whose time this process does not follow any more."""
        if not job.are_alike:
            return None
        for (pipeline, label), kept in _LIVE.items():
            is_free = kept.job == self._job.id and kept.stage != self._stage
            if pipeline == self._pipeline and is_free:
                return _LIVE.pop((pipeline, label)).hosted
        return None

    # ---- the store ----

    def _read(self) -> tuple[dict[str, bytes], bool]:
        """The engine's pages, and whether this very job wrote them. If so it knows the plan, and
        the pages of that are not read."""
        is_own = self._page(RUN_PAGE) == self._job.id.encode()
        found = [name for (name,) in list(self._pages.keys())]
        names = sorted(name for name in found if name != RUN_PAGE)
        plan = [name for name in names if name.startswith(PLAN_PAGE)]
        plan.sort(key=lambda name: int(name.removeprefix(PLAN_PAGE)))
        self._old_plan = None if is_own else {name: self._page(name) for name in plan}
        return {name: self._page(name) for name in names if name not in plan}, is_own

    def _page(self, name: str) -> bytes:
        value = self._pages.getValue((name,))
        return bytes(value[0]) if value is not None else b""

    def _save(self, label: int, hosted: Hosted, *, loaded: bool) -> int:
        """Write what changed and the token that belongs to it; how many bytes that was."""
        delta: Delta = hosted.shard.save()
        token = uuid.uuid4().hex
        puts, removals = dict(delta.puts), list(delta.removals)
        if hosted.live is not None:
            own, gone = hosted.live.save()
            puts |= own
            removals += gone
        if loaded and self._old_plan is not None:
            puts[RUN_PAGE] = self._job.id.encode()
            plan, old = _plan_pages(self._job.open().saved), self._old_plan
            puts |= {name: page for name, page in plan.items() if old.get(name) != page}
            removals += [name for name in old if name not in plan]
        for name in removals:
            self._pages.removeKey((name,))
        for name, page in puts.items():
            self._pages.updateValue((name,), (page,))
        self._token.update((token,))
        _LIVE[self._pipeline, label] = Kept(self._job.id, token, self._stage, hosted)
        while len(_LIVE) > MAX_LIVE:
            _LIVE.popitem(last=False)
        return sum(len(page) for page in puts.values())


def _envelopes(frame: pd.DataFrame) -> Iterator[tuple[int, str, int | None, int, Any, int]]:
    columns = (frame[c] for c in ("kind", "channel", "time", "rows", "payload", "now"))
    for kind, name, time, rows, payload, now in zip(*columns, strict=True):
        yield int(kind), name, None if pd.isna(time) else int(time), int(rows), payload, int(now)


def _plan_pages(plan: bytes) -> dict[str, bytes]:
    starts = range(0, len(plan), PLAN_BYTES)
    return {f"{PLAN_PAGE}{i}": plan[at : at + PLAN_BYTES] for i, at in enumerate(starts)}
