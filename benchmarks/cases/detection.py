"""Detections against the multi-way join that orders itself, by streams, buckets and threshold.

Figures 4 to 7 of StaMe. Both read the same streams under the same windows in the same engine; the join puts its
results out, the detection says for each batch of a hundred events that there is one. Verified detections must
find exactly the batches in which the join has results; those that are not verified must miss none of them.

False alarms are counted where results are rare, an event at a time: the share of the events without a result
that are reported. By buckets (figure 6) and by threshold (figure 7) detections are of four streams.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.detection import Chain
from benchmarks.harness import Case, Figure, Measured, Prepared, Ratio, Ratios, Size, Variants
from benchmarks.subscribed import ENVIRONMENT

BATCH = 100
BITMAPS = f"BATCH {BATCH} BITMAPS VERIFY NEVER"
AMONG = 4


class Joined:
    """The join; its answer are the batches in which it has results."""

    def __init__(self, size: Size, streams: int) -> None:
        self._chain = Chain.dense(streams, size)

    def prepare(self) -> Prepared:
        done, _ = self._chain.run(self._chain.join)
        return Prepared(done.seconds, done.plan_s)

    def measure(self) -> Measured:
        done, instants = self._chain.run(self._chain.join)
        found = self._chain.answered(instants, BATCH).tolist()
        answer = {f"batches@{self._chain.streams}": found, "missed": 0}
        return Measured(done.seconds, done.events, answer, done.state_bytes)

    def close(self) -> None:
        pass


class Detected:
    """A detection of the same; what is verified answers like the join, what is not misses nothing."""

    def __init__(self, size: Size, streams: int, settings: str, verified: bool) -> None:
        self._chain = Chain.dense(streams, size)
        self._query = self._chain.detection(settings)
        self._sure = self._chain.detection(f"BATCH {BATCH} VERIFY ALWAYS")
        self._verified = verified
        self._true: set[int] = set()

    def prepare(self) -> Prepared:
        done, _ = self._chain.run(self._query)
        self._true = set(self._chain.run(self._sure)[1].tolist())
        return Prepared(done.seconds, done.plan_s)

    def measure(self) -> Measured:
        done, instants = self._chain.run(self._query)
        last = self._chain.events
        found = [instant for instant in instants.tolist() if instant < last]
        answer: dict[str, Any] = {"missed": len({t for t in self._true if t < last} - set(found))}
        if self._verified:
            answer[f"batches@{self._chain.streams}"] = found
        return Measured(done.seconds, done.events, answer, done.state_bytes)

    def close(self) -> None:
        pass


class Rare:
    """How often a detection says that there is a result where there is none."""

    def __init__(self, size: Size, streams: int, settings: str) -> None:
        self._chain = Chain.rare(streams, size)
        self._query = self._chain.detection(settings)
        self._true: set[int] = set()

    def prepare(self) -> Prepared:
        self._true = set(self._chain.run(self._chain.detection("VERIFY ALWAYS"))[1].tolist())
        return Prepared()

    def measure(self) -> Measured:
        done, instants = self._chain.run(self._query)
        found = set(instants.tolist())
        share = len(found - self._true) / (done.events - len(self._true))
        answer = {"missed": len(self._true - found)}
        return Measured(
            done.seconds, done.events, answer, done.state_bytes, {"false_positives": share}
        )

    def close(self) -> None:
        pass


def variants(size: Size) -> Variants:
    found: dict[str, Any] = {}
    for n in size["streams"]:
        found[f"exact@{n}"] = partial(Joined, streams=n)
        found[f"bitmaps@{n}"] = partial(Detected, streams=n, settings=BITMAPS, verified=False)
        rare = f"BITMAPS VERIFY NEVER BUCKETS {size['buckets'][-1]}"
        found[f"rare@{n}"] = partial(Rare, streams=n, settings=rare)
    most = size["streams"][-1]
    for name, settings, verified in (
        ("counts", f"BATCH {BATCH} COUNTS VERIFY NEVER", False),
        ("packing", f"BATCH {BATCH} BITMAPS PACKING 0.6", False),
        ("verified", f"BATCH {BATCH} BITMAPS VERIFY ALWAYS", True),
    ):
        found[f"{name}@{most}"] = partial(
            Detected, streams=most, settings=settings, verified=verified
        )
    for buckets in size["buckets"]:
        settings = f"BATCH {BATCH} BITMAPS PACKING 0.6 BUCKETS {buckets}"
        found[f"bucketed@{buckets}"] = partial(
            Detected, streams=AMONG, settings=settings, verified=False
        )
        settings = f"BITMAPS VERIFY NEVER BUCKETS {buckets}"
        found[f"rare_bucketed@{buckets}"] = partial(Rare, streams=AMONG, settings=settings)
    for packing in size["packing"]:
        settings = f"BITMAPS PACKING {packing} BUCKETS {size['threshold_buckets']}"
        found[f"rare_packing@{packing}"] = partial(Rare, streams=AMONG, settings=settings)
    return found


def ratios(size: Size) -> Ratios:
    found: list[Ratio | Figure] = []

    def against(point: str, variant: str, exact: str) -> None:
        found.append(Ratio(f"time/exact@{point}", "time", variant, exact))
        found.append(Ratio(f"memory/exact@{point}", "memory", variant, exact))

    for n in size["streams"]:
        against(str(n), f"bitmaps@{n}", f"exact@{n}")
        found.append(Figure(f"false_positives@{n}", f"rare@{n}", "false_positives"))
    most = size["streams"][-1]
    for name in ("counts", "packing", "verified"):
        against(f"{most}_{name}", f"{name}@{most}", f"exact@{most}")
    for buckets in size["buckets"]:
        against(f"buckets_{buckets}", f"bucketed@{buckets}", f"exact@{AMONG}")
        found.append(
            Figure(
                f"false_positives@buckets_{buckets}",
                f"rare_bucketed@{buckets}",
                "false_positives",
            )
        )
    for packing in size["packing"]:
        found.append(
            Figure(
                f"false_positives@packing_{packing}", f"rare_packing@{packing}", "false_positives"
            )
        )
    return tuple(found)


CASE = Case(
    name="detection",
    about="detections by synopses, and the join of the same streams, windows and predicates",
    sizes={
        "small": {
            "streams": (2, 4, 6),
            "window": 400,
            "events": 12_000,
            "rare_events": 6_000,
            "step": 3_000,
            "buckets": (256, 8_192),
            "threshold_buckets": 1_024,
            "packing": (0.1, 0.9),
            "seed": 1,
        },
        "full": {
            "streams": (2, 3, 4, 5, 6),
            "window": 2_000,
            "events": 120_000,
            "rare_events": 60_000,
            "step": 12_000,
            "buckets": (64, 256, 1_024, 4_096, 16_384, 32_768),
            "threshold_buckets": 4_096,
            "packing": (0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
            "seed": 1,
        },
    },
    variants=variants,
    ratios=ratios,
    shares_process=True,
    env=ENVIRONMENT,
)
