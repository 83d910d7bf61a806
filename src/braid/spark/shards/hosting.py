"""Hosting: which engine a worker process uses for a shard, and what the state store contains.

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

Each page is stored with its checksum, and a manifest says which pages belong together: how many,
the sum of their checksums, the checksum of the plan, the shard, and the token. A batch writes the
pages that it changed and the manifest, which has a fixed size. All of it is verified before
anything is read.
"""

from __future__ import annotations

import json
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext

from braid.engine.checksums import SIZE, Ledger, checksum, damaged, reading, seal, unseal
from braid.engine.state import STATE_FORMAT
from braid.engine.state_pages import SavedPages
from braid.errors import CheckpointError
from braid.spark.pipeline.envelopes import PACKED, REFUSED, REJECTED, Rows, open_payload
from braid.spark.pipeline.shipping import Shipped, settle
from braid.spark.shards.shards import HostedShard, ShardBatch, ShardJob, add_stats

#: Live engines that a worker process keeps.
MAX_LIVE = 32

#: The pages that say how the shard's state was distributed; the others are the engine's.
PLAN_PAGE = "~plan/"
PLAN_BYTES = 1 << 20

#: What the other pages are, see above; and which run wrote them: time that passed between runs
#: makes nobody idle.
MANIFEST = "~manifest"

_ANEW = "restore an older copy of the checkpoint, or start with a new checkpoint directory"


@dataclass(frozen=True)
class CachedEngine:
    """An engine with the job that it runs, the token that it wrote, the stage it ran in, and the
    checksums of the pages and of the plan that it has stored."""

    job: str
    token: str
    stage: int
    hosted: HostedShard
    ledger: Ledger
    plan: str


#: By pipeline and shard, the one that was used last at the end.
_ENGINES: OrderedDict[tuple[str, int], CachedEngine] = OrderedDict()


def _stage() -> int:
    """The stage that this task belongs to: every batch has another."""
    context = TaskContext.get()
    return int(context.stageId()) if context is not None else 0


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
        #: The checksums of the pages in the store, but for those of the plan.
        self._ledger = Ledger()
        self._plan: str | None = None

    def run(self, label: int, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Give a shard its envelopes; what comes out of it, packed."""
        hosted, is_live = self._shard(label)
        job = self._job.open()
        aliases = job.distribution.aliases
        incoming = ShardBatch(hosted, job.arriving, aliases=aliases, began=job.began)
        out = Rows(PACKED)
        for frame in rows:
            for kind, name, time, count, payload, now in _envelopes(frame):
                if kind == REJECTED:
                    refused = open_payload(payload)
                    out.add(REFUSED, name, count, batches=refused)
                    hosted.shard.reports.reject(pa.Table.from_batches(refused))
                else:
                    incoming.take(kind, name, time, count, payload, now)
        emission = incoming.run()
        job.pack(label, emission, out)
        job.pack_changes(label, incoming.outcome, out)
        saved = self._save(label, hosted, loaded=not is_live)
        numbers = {
            **emission.stats,
            **hosted.shard.sizes,
            "events": incoming.events,
            "envelopes": incoming.envelopes,
            "saved_bytes": saved,
            "restored": 0 if is_live else 1,
        }
        add_stats(
            out,
            job.shard(label),
            numbers,
            emission.suspended,
            hosted,
            incoming.outcome,
            incoming.due,
        )
        yield out.batch().to_pandas()
        if self._is_new:
            settle()

    # ---- which engine ----

    def _shard(self, label: int) -> tuple[HostedShard, bool]:
        """The engine in the state that the store has, and whether it was alive."""
        stored = self._token.get() if self._token.exists() else None
        # Remove it from the cache: if this run fails, no later run may see its changes to the engine.
        known = _ENGINES.pop((self._pipeline, label), None)
        if known is not None and known.job != self._job.id:
            known = None
        if known is not None and stored is not None and known.token == stored[0]:
            self._ledger, self._plan = known.ledger, known.plan
            return known.hosted, True
        job = self._job.open()
        if stored is None:
            if list(self._pages.keys()):
                raise damaged(f"shard {label} has pages but no record of what wrote them", _ANEW)
            self._is_new = True
            return job.fresh(label), False
        pages, is_own = self._read(label, str(stored[0]))
        if is_own:
            hosted = known.hosted if known is not None else self._taken_over(job)
            if hosted is not None and job.follow(hosted, pages):
                return hosted, False
            del hosted
        del known
        self._is_new = True
        plan = None if self._old_plan is None else b"".join(self._old_plan.values())
        return job.restored(label, pages, plan), False

    def _taken_over(self, job: ShardJob) -> HostedShard | None:
        """An engine of another shard whose time this process does not follow any more."""
        if not job.are_alike:
            return None
        for (pipeline, label), kept in _ENGINES.items():
            is_free = kept.job == self._job.id and kept.stage != self._stage
            if pipeline == self._pipeline and is_free:
                return _ENGINES.pop((pipeline, label)).hosted
        return None

    # ---- the store ----

    def _read(self, label: int, token: str) -> tuple[SavedPages, bool]:
        """The engine's pages, and whether this very job wrote them. If so it knows the plan, and
        the pages of that are not read."""
        names = sorted(name for (name,) in list(self._pages.keys()))
        manifest = self._manifest(label, token, names)
        is_own = manifest["run"] == self._job.id
        plan = [name for name in names if name.startswith(PLAN_PAGE)]
        pages = SavedPages()
        for name in names:
            if name == MANIFEST or name.startswith(PLAN_PAGE):
                continue
            data = self._page(name)
            page, digest = data[:-SIZE], data[-SIZE:]
            if len(data) < SIZE or checksum(name, page) != digest:
                raise damaged(
                    f"page {name} of shard {label} does not have the checksum it was saved with",
                    _ANEW,
                )
            pages[name], pages.digests[name] = page, digest
        self._ledger = Ledger(pages.digests)
        if (manifest["pages"], manifest["sum"]) != (len(self._ledger), self._ledger.sum):
            raise damaged(f"the pages of shard {label} are not of one version", _ANEW)
        self._old_plan = None if is_own else self._read_plan(label, plan, manifest["plan"])
        return pages, is_own

    def _manifest(self, label: int, token: str, names: list[str]) -> dict[str, Any]:
        """The manifest, if it is that of the run that wrote the token."""
        if MANIFEST not in names:
            if "meta" in names:
                _refuse_unchecked(label, self._page("meta"))
            raise damaged(f"shard {label} has no manifest of its pages", _ANEW)
        with reading(_identity(label), _ANEW):
            found: dict[str, Any] = json.loads(
                unseal(_identity(label), self._page(MANIFEST), _ANEW)
            )
            if found["format"] != STATE_FORMAT:
                raise _other_format(label, found["format"])
            if found["token"] != token:
                raise damaged(f"{_identity(label)} is of another version than its token", _ANEW)
        return found

    def _read_plan(self, label: int, names: list[str], digest: str) -> dict[str, bytes]:
        with reading(f"the plan of shard {label}", _ANEW):
            names.sort(key=lambda name: int(name.removeprefix(PLAN_PAGE)))
            found = {name: self._page(name) for name in names}
            if _plan_digest(b"".join(found.values())) != digest:
                raise damaged(f"the plan of shard {label} is not the one that was saved", _ANEW)
        return found

    def _page(self, name: str) -> bytes:
        value = self._pages.getValue((name,))
        return bytes(value[0]) if value is not None else b""

    def _save(self, label: int, hosted: HostedShard, *, loaded: bool) -> int:
        """Write what changed and the token that belongs to it; how many bytes that was."""
        delta = hosted.shard.save()
        token = uuid.uuid4().hex
        puts, removals, size = dict(delta.puts), list(delta.removals), 0
        if hosted.live is not None:
            own, gone = hosted.live.save()
            puts |= own
            removals += gone
        if loaded and self._old_plan is not None:
            size += self._save_plan(self._old_plan)
        ledger = self._ledger
        for name in removals:
            ledger.remove(name)
            self._pages.removeKey((name,))
        for name, page in puts.items():
            digest = delta.digests.get(name) or checksum(name, page)
            ledger.put(name, digest)
            self._pages.updateValue((name,), (page + digest,))
        if self._plan is None:
            self._plan = _plan_digest(self._job.open().saved)
        said = {"format": STATE_FORMAT, "token": token, "run": self._job.id, "plan": self._plan}
        said |= {"pages": len(ledger), "sum": ledger.sum}
        manifest = seal(_identity(label), json.dumps(said).encode())
        self._pages.updateValue((MANIFEST,), (manifest,))
        self._token.update((token,))
        kept = CachedEngine(self._job.id, token, self._stage, hosted, ledger, self._plan)
        _ENGINES[self._pipeline, label] = kept
        while len(_ENGINES) > MAX_LIVE:
            _ENGINES.popitem(last=False)
        return size + sum(len(page) for page in puts.values())

    def _save_plan(self, old: dict[str, bytes]) -> int:
        """Write the plan of this job where it differs from that in the store; how many bytes."""
        plan = _plan_pages(self._job.open().saved)
        changed = {name: page for name, page in plan.items() if old.get(name) != page}
        for name in old:
            if name not in plan:
                self._pages.removeKey((name,))
        for name, page in changed.items():
            self._pages.updateValue((name,), (page,))
        return sum(map(len, changed.values()))


def _envelopes(frame: pd.DataFrame) -> Iterator[tuple[int, str, int | None, int, Any, int]]:
    columns = (frame[c] for c in ("kind", "channel", "time", "rows", "payload", "now"))
    for kind, name, time, rows, payload, now in zip(*columns, strict=True):
        yield int(kind), name, None if pd.isna(time) else int(time), int(rows), payload, int(now)


def _identity(label: int) -> str:
    return f"the manifest of shard {label}"


def _plan_digest(plan: bytes) -> str:
    return checksum("plan", plan).hex()


def _refuse_unchecked(label: int, meta: bytes) -> None:
    """Say so if an older version wrote the pages, which had no checksums."""
    try:
        found = int(json.loads(meta)["format"])
    except (KeyError, ValueError, TypeError):
        return
    raise _other_format(label, found)


def _other_format(label: int, found: object) -> CheckpointError:
    return CheckpointError(
        "E420",
        f"the state of shard {label} has format {found}, this version reads {STATE_FORMAT}",
        "start with a new checkpoint, or use the version that wrote this one",
    )


def _plan_pages(plan: bytes) -> dict[str, bytes]:
    starts = range(0, len(plan), PLAN_BYTES)
    return {f"{PLAN_PAGE}{i}": plan[at : at + PLAN_BYTES] for i, at in enumerate(starts)}
