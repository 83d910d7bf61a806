"""Snapshots of engines of every kind of query, and ways to damage them.

As a program it damages snapshots *below* the checksums, which are made anew, and restores them. It
runs by itself because a mistake there ends the process:

    python -m tests.properties.damage SEED COUNT [KIND ...]

It prints the seed of each case before it runs, and at the end a JSON line with counts.
"""

from __future__ import annotations

import json
import resource
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import braid
from braid.errors import BraidError
from tests.engine.snapshot_parts import opened, sealed
from tests.operators.constraint_join.test_exact_joins import eager
from tests.operators.detect.test_detection import FROM as DETECTED
from tests.operators.detect.test_detection import STREAMS as DETECTION_STREAMS
from tests.operators.detect.test_detection import events as detection_events
from tests.operators.documents.test_document_state import LEFT, ONE, TWO, document
from tests.operators.documents.test_documents import STREAMS as DOCUMENT_STREAMS
from tests.operators.documents.test_documents import documents
from tests.operators.selection_join.test_selection_joins import STREAMS as SELECTION_STREAMS
from tests.operators.selection_join.test_selection_joins import TEXT as SELECTION
from tests.operators.selection_join.test_selection_joins import members, tuples

Batch = Mapping[str, Any]
Answer = Counter[tuple[str, ...]]

PATTERN_STREAMS = """
CREATE STREAM S (k STRING, x BIGINT, v DOUBLE, t BIGINT) TIME t LATENESS 5;
"""
PATTERNS = {
    **{
        f"pair{n}": f"SELECT k, x_1 AS a, x AS b FROM FILTER{{x > {n}}} S NEXT{{$1.k = $2.k}} S "
        f"PUBLISH P{n}"
        for n in range(4)
    },
    "three": "SELECT k FROM (S NEXT{$1.k = $2.k AND DUR < 50} S) NEXT{$2.x > 3} S",
    "fold": "SELECT k, n FROM (SELECT *, 0 AS n FROM S) "
    "FOLD{$2.k = $.k, $2.v > $.v, $.n + 1 AS n} S",
    "carried": "SELECT k, tags_1 AS before, tags FROM T NEXT{$1.k = $2.k} T",
    "reader": "SELECT a FROM P1 NEXT{DUR < 9} P1",
}
WINDOWS = {
    "range": "Select k, sum(v), min(x), max(k), count(distinct x) From S [Range 30] Group By k",
    "rows": "Select k, avg(v), count(*) From S [Partition By k Rows 3] Group By k",
    "whole": "Select sum(x), min(v) From S [Rows 20]",
    "text": "Istream(Select min(k), max(k) From S [Range 25] Group By x)",
    "stream": "Rstream(Select * From S [Rows 5])",
    "gone": "Dstream(Select k, x From S [Range 10])",
}
JOIN_STREAMS = """
CREATE STREAM A (a BIGINT, b STRING, x BIGINT, t BIGINT) TIME t;
CREATE STREAM B (a BIGINT, b STRING, y BIGINT, t BIGINT) TIME t;
CREATE STREAM C (a BIGINT, b STRING, z BIGINT, t BIGINT) TIME t;
"""
JOINS = {
    "time": "Istream(Select x, y From A [Range 20], B [Range 30] Where A.a = B.a)",
    "time2": "Istream(Select x, y From A [Range 10], B [Range 30] Where A.a = B.a and y > 1)",
    "rows": "Istream(Select x, y From A [Rows 9], B [Rows 7] Where A.b = B.b)",
    "three": "Istream(Select x, y, z From A [Rows 9], B [Range 9], C [Rows 8] "
    "Where A.a = B.a and B.b = C.b)",
    "band": "Istream(Select x, y From A [Rows 9], B [Rows 7] Where A.x < B.y)",
    "all": "Rstream(Select A.b, y From A [Range 5], B [Range 5] Where A.a = B.a)",
}
#: Constraint joins are alone with their streams: those of each query have its number.
CONSTRAINTS = """
CREATE STREAM A{0} (a BIGINT, b STRING, x BIGINT, t BIGINT) TIME t;
CREATE STREAM B{0} (a BIGINT, b STRING, y BIGINT, t BIGINT) TIME t;
CREATE STREAM C{0} (a BIGINT, b STRING, z BIGINT, t BIGINT) TIME t;
CREATE CONSTRAINT one{0} ON A{0} (x) KEY;
CREATE CONSTRAINT rising{0} ON B{0} (y) ASCENDING WITHIN 3 ROWS;
CREATE CONSTRAINT near{0} ON B{0} (a) CLUSTERED WITHIN 50 ROWS;
"""
CONSTRAINT_JOINS = [
    "Istream(Select x, y From A{0} [Range 40] As A, B{0} [Range 30] As B Where A.a = B.a)",
    "Istream(Select x, y From A{0} [Range 400] As A, B{0} [Range 400] As B Where A.x = B.y)",
    "Istream(Select x, A.b, y From A{0} As A, B{0} [Range 400] As B Where A.b = B.b and x = y)",
    """Istream(Select x, y, z From A{0} [Rows 20] As A, B{0} [Rows 20] As B, C{0} As C
       Where A.a = B.a and B.b = C.b)""",
    """Istream(Select A.b, y From A{0} [Partition By b Rows 3] As A, B{0} [Rows 30] As B
       Where A.a = B.a)""",
]


@dataclass(frozen=True)
class Subject:
    """A snapshot, what comes after it, and what is answered then."""

    snapshot: bytes
    batches: tuple[Batch, ...]
    answer: Answer
    #: Constraint joins watch and spill as soon as they can.
    eager: bool = False

    def answered(self, snapshot: bytes) -> Answer:
        """What an engine that is restored from these bytes answers."""
        if not self.eager:
            return _rest(braid.Engine.restore(snapshot), self.batches)
        with eager():
            return _rest(braid.Engine.restore(snapshot), self.batches)


def _rest(engine: braid.Engine, batches: tuple[Batch, ...]) -> Answer:
    found: Answer = Counter()
    for batch in batches:
        engine.process(batch)
        found.update(_rows(engine))
    engine.finish()
    found.update(_rows(engine))
    for reason in engine.suspended.values():
        if reason.startswith("E320"):  # an operator raised something
            raise (MemoryError if "MemoryError" in reason else RuntimeError)(reason)
    return found


def _rows(engine: braid.Engine) -> list[tuple[str, ...]]:
    return [
        (name, str(stream), *map(str, row.values()))
        for (name, stream), table in engine.results.items()
        for row in table.to_pylist()
    ]


def _subject(engine: braid.Engine, first: list[Batch], after: list[Batch], fast: bool) -> Subject:
    for batch in first:
        engine.process(batch)
    snapshot = engine.snapshot()
    rest = tuple(after)
    answer = _rest(braid.Engine.restore(snapshot), rest)
    assert answer, "a subject without an answer shows nothing"
    return Subject(snapshot, rest, answer, fast)


def _made(streams: str, queries: Mapping[str, str], **options: Any) -> braid.Engine:
    engine = braid.Engine(idle_timeout=None, **options)
    engine.execute(streams)
    if streams is PATTERN_STREAMS:
        tags = pa.schema([("k", pa.string()), ("tags", pa.list_(pa.string())), ("t", pa.int64())])
        engine.stream("T", tags, time="t")
    for name, text in queries.items():
        engine.query(name, text)
    return engine


def _events(first: int, last: int) -> Batch:
    drawn, ticks = np.random.default_rng(first), list(range(first, last))
    keys = [f"key {k}" for k in drawn.integers(0, 5, len(ticks))]
    values = [float(v) * 10.0 ** (v % 40 - 20) for v in drawn.integers(-9, 99, len(ticks))]
    tags = [[key, str(t)] if t % 3 else None for key, t in zip(keys, ticks, strict=True)]
    return {
        "S": pa.table({"k": keys, "x": drawn.integers(0, 9, len(ticks)), "v": values, "t": ticks}),
        "T": pa.table({"k": keys, "tags": pa.array(tags, pa.list_(pa.string())), "t": ticks}),
    }


def _joined(first: int, last: int) -> Batch:
    drawn, ticks = np.random.default_rng(first), np.arange(first, last)

    def side(name: str, values: Any) -> pa.Table:
        text = [f"text {k}" for k in drawn.integers(0, 4, len(ticks))]
        return pa.table(
            {"a": drawn.integers(0, 6, len(ticks)), "b": text, name: values, "t": ticks}
        )

    return {"A": side("x", ticks), "B": side("y", ticks // 2), "C": side("z", ticks % 7)}


def _patterns() -> Subject:
    made = _made(PATTERN_STREAMS, PATTERNS)
    return _subject(made, [_events(0, 40), _events(40, 80)], [_events(80, 120)], False)


def _windows() -> Subject:
    made = _made(PATTERN_STREAMS, WINDOWS)
    return _subject(made, [_events(0, 40), _events(40, 80)], [_events(80, 120)], False)


def _joins() -> Subject:
    made = _made(JOIN_STREAMS, JOINS, constraints="off")
    return _subject(made, [_joined(0, 30), _joined(30, 60)], [_joined(60, 90)], False)


def _constraints() -> Subject:
    count = len(CONSTRAINT_JOINS)

    def batch(first: int, last: int) -> Batch:
        tables = _joined(first, last)
        return {f"{name}{n}": table for name, table in tables.items() for n in range(count)}

    with eager():
        streams = "".join(CONSTRAINTS.format(n) for n in range(count))
        queries = {f"q{n}": text.format(n) for n, text in enumerate(CONSTRAINT_JOINS)}
        made = _made(streams, queries, spill_above=0)
        first = [batch(20 * n, 20 * n + 20) for n in range(5)]
        return _subject(made, first, [batch(100, 130)], True)


def _selections() -> Subject:
    made = braid.Engine(idle_timeout=None)
    made.execute(SELECTION_STREAMS)
    made.query("q", SELECTION, members(60))
    return _subject(made, [tuples(0, 60), tuples(60, 120)], [tuples(120, 160)], False)


def _detections() -> Subject:
    queries = {
        "whole": f"DETECT F {DETECTED} BATCH 7 VERIFY ALWAYS",
        "bits": f"DETECT G {DETECTED} BATCH 9 BITMAPS",
        "keyed": "DETECT H FROM A [Range 50], B [Rows 9] WHERE A.x = B.x BATCH 1 VERIFY ALWAYS "
        "PARTITION BY x",
    }
    made = _made(DETECTION_STREAMS, queries)
    first = [detection_events(0, 30), detection_events(30, 30)]
    return _subject(made, first, [detection_events(60, 30)], False)


def _documents() -> Subject:
    made = _made(DOCUMENT_STREAMS, {"one": ONE, "two": TWO, "left": LEFT})
    batches = [documents(*((document(t // 4), t) for t in range(n, n + 9))) for n in (0, 9, 18)]
    return _subject(made, batches[:2], batches[2:], False)


KINDS: dict[str, Callable[[], Subject]] = {
    "patterns": cache(_patterns),
    "windows": cache(_windows),
    "joins": cache(_joins),
    "constraint joins": cache(_constraints),
    "selection joins": cache(_selections),
    "detections": cache(_detections),
    "documents": cache(_documents),
}


# ---- damage ----


def damaged_bytes(data: bytes, drawn: np.random.Generator) -> bytes:
    """Some of these bytes flipped, cut out, doubled, exchanged, or all zeros or ones."""
    out = bytearray(data)
    size = len(out)
    at = int(drawn.integers(0, size))
    length = int(min(size - at, 2 ** drawn.integers(0, 14)))
    match int(drawn.integers(0, 8)):
        case 0:
            for place in drawn.integers(0, size, int(drawn.integers(1, 9))):
                out[place] ^= 1 << int(drawn.integers(0, 8))
        case 1:
            out[at] = int(drawn.integers(0, 256))
        case 2:
            out[at : at + length] = bytes(length)
        case 3:
            out[at : at + length] = b"\xff" * length
        case 4:
            del out[at : at + length]
        case 5:
            del out[at:]
        case 6:
            out[at:at] = out[at : at + length]
        case _:
            other = int(drawn.integers(0, size - length + 1))
            piece = out[at : at + length]
            out[at : at + length], out[other : other + length] = out[other : other + length], piece
    return bytes(out)


def damaged_snapshot(subject: Subject, other: Subject, drawn: np.random.Generator) -> bytes:
    """A snapshot that is another one than it was: single bytes, whole pages, or pages of others."""
    while True:
        found = _damaged_snapshot(subject.snapshot, other.snapshot, drawn)
        if found != subject.snapshot:
            return found


def _damaged_snapshot(snapshot: bytes, other: bytes, drawn: np.random.Generator) -> bytes:
    kind = int(drawn.integers(0, 6))
    if kind < 3:
        return damaged_bytes(snapshot, drawn)
    _, pages = opened(snapshot)
    names = list(pages)
    first, second = (names[int(drawn.integers(0, len(names)))] for _ in range(2))
    begin = snapshot[: len(snapshot) - sum(map(len, pages.values()))]
    if kind == 3:  # two pages in each other's place
        pages[first], pages[second] = pages[second], pages[first]
    elif kind == 4:  # a page of another snapshot
        _, others = opened(other)
        pages[first] = list(others.values())[int(drawn.integers(0, len(others)))]
    else:
        pages[first] = damaged_bytes(pages[first] or b"\0", drawn)
    return begin + b"".join(pages.values())


#: Words that are likely to be taken for something else: numbers, addresses, times.
WORDS = (0, 1, -1, -2, 2, 7, 64, 1 << 20, (1 << 31) - 1, 1 << 32, (1 << 62) + 1, -(1 << 63))


def damaged_below(subject: Subject, drawn: np.random.Generator) -> bytes:
    """A snapshot with other contents and the checksums of those."""
    header, pages = opened(subject.snapshot)
    names = [n for n in pages if pages[n] and (n.startswith("mop/") or drawn.random() < 0.4)]
    for _ in range(int(drawn.integers(1, 4))):
        name = names[int(drawn.integers(0, len(names)))]
        page = pages[name] or b"\0"  # one of the last rounds may have emptied it
        if len(page) % 8 == 0 and drawn.random() < 0.8:
            words = np.frombuffer(page, np.int64).copy()
            for place in drawn.integers(0, len(words), int(drawn.integers(1, 4))):
                words[place] = _other_word(words, int(place), drawn)
            pages[name] = words.tobytes()
        else:
            pages[name] = damaged_bytes(page, drawn)
    return sealed(header, pages)


def _other_word(words: np.ndarray, place: int, drawn: np.random.Generator) -> int:
    match int(drawn.integers(0, 4)):
        case 0:
            return WORDS[int(drawn.integers(0, len(WORDS)))]
        case 1:
            return int(words[place]) ^ (1 << int(drawn.integers(0, 63)))
        case 2:
            return int(words[int(drawn.integers(0, len(words)))])
        case _:
            step = int(drawn.integers(-9, 10))
            return max(-(2**63), min(2**63 - 1, int(words[place]) + step))


def outcome(subject: Subject, snapshot: bytes) -> str:
    """What becomes of a damaged snapshot: an error's code, `same`, `other`, or an exception."""
    try:
        found = subject.answered(snapshot)
    except BraidError as error:
        return error.code
    except MemoryError:
        return "MemoryError"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "same" if found == subject.answer else "other"


#: Numbers that make sense and are huge ask for more memory than there is: the child gets no more.
MEMORY = 6 << 30


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    seed, count, kinds = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or list(KINDS)
    found: Counter[str] = Counter()
    for number in range(seed, seed + count):
        kind = kinds[number % len(kinds)]
        subject = KINDS[kind]()
        print(f"{kind}: {number}", flush=True)
        became = outcome(subject, damaged_below(subject, np.random.default_rng(number)))
        found[f"{became} ({kind}: {number})" if ":" in became else became] += 1
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
