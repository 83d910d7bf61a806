"""Walks one batch through a query and says which files it visits, in order.

Whoever wants to know what happens to an event reads these files, and moves from one to the next as
often as the walk changes packages. The compiler is off, so that the functions of kernels count too;
a first batch warms up what is made once. Each function counts where it is entered first.

    tools/walk.py                    the three walks of this tree, in short
    tools/walk.py --files join       also the files of one of them, and how many functions are entered
    PYTHONPATH=other/src tools/walk.py --flat    a tree whose packages are its first folders
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

os.environ["NUMBA_DISABLE_JIT"] = "1"

import braid

PACKAGE = Path(braid.__file__).parent
#: Packages whose sub-packages are told apart, as in `tests/project/test_imports.py`.
NESTED = {"engine", "lang", "operators", "spark"}

Batch = dict[str, dict[str, list[Any]]]


@dataclass(frozen=True)
class Scene:
    """Streams, a query, a batch to warm up, and the batch that is followed."""

    streams: str
    query: str
    first: Batch
    second: Batch


def _ticks(key: str, start: int) -> Batch:
    """Two events of each stream that meet, and one that meets nothing."""
    ids, times = [start, start + 1, start], [start, start + 1, start + 2]
    return {name: {key: ids, "v": [1, 2, 3], "t": times} for name in ("A", "B")}


_AB = """
CREATE STREAM A (k BIGINT, v BIGINT, t BIGINT) TIME t;
CREATE STREAM B (k BIGINT, v BIGINT, t BIGINT) TIME t;
"""
_BOOK = "<book><author>{0}</author><title>T</title></book>"
_BLOG = "<blog><author>{0}</author><title>T</title></blog>"


def _documents(start: int) -> Batch:
    texts = [form.format(start) for form in (_BOOK, _BLOG, "<other><author>{0}</author></other>")]
    times = [start, start + 1, start + 2]
    return {"S": {"id": [f"d{t}" for t in times], "doc": texts, "t": times}}


SCENES = {
    "pattern": Scene(
        _AB,
        "SELECT * FROM FILTER {v > 0}(A) NEXT {$1.k = $2.k AND DUR < 10} B",
        _ticks("k", 10),
        _ticks("k", 20),
    ),
    "join": Scene(
        _AB,
        "Select A.k, A.v, B.v As w From A [Range 5], B [Range 5] Where A.k = B.k And A.v > 0",
        _ticks("k", 10),
        _ticks("k", 20),
    ),
    "documents": Scene(
        "CREATE STREAM S (id STRING, doc XML, t BIGINT) TIME t;",
        "S//book->x1[./author->x2][./title->x3] FOLLOWED BY{x2 = x5 AND x3 = x6, 10} "
        "S//blog->x4[./author->x5][./title->x6]",
        _documents(10),
        _documents(20),
    ),
}


@dataclass
class Walk:
    """The functions of Braid that were entered, in order."""

    room: Callable[[str], str]
    #: Each function once, where it was entered first, by its file.
    first: list[str] = field(default_factory=list)
    #: Every call.
    calls: list[str] = field(default_factory=list)
    known: set[CodeType] = field(default_factory=set)

    def note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)):
            return
        file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
        self.calls.append(file)
        if code not in self.known:
            self.known.add(code)
            self.first.append(file)

    @property
    def files(self) -> Counter[str]:
        return Counter(self.first)

    @property
    def rooms(self) -> list[str]:
        """The packages, one after the other."""
        return [self.room(file) for file in self.first]


def changes(rooms: list[str]) -> int:
    return sum(one != other for one, other in pairwise(rooms))


def package_of(file: str) -> str:
    first, *rest = file.removesuffix(".py").split("/")
    return f"{first}/{rest[0]}" if first in NESTED and len(rest) > 1 else first


def first_folder(file: str) -> str:
    return file.removesuffix(".py").partition("/")[0]


@contextmanager
def followed(walk: Walk) -> Iterator[None]:
    sys.setprofile(walk.note)
    try:
        yield
    finally:
        sys.setprofile(None)


def walked(scene: Scene, room: Callable[[str], str], check: bool = True) -> Walk:
    engine = braid.Engine()
    engine.execute(scene.streams)
    engine.query("q", scene.query)
    engine.process(scene.first)
    walk = Walk(room)
    with followed(walk):
        engine.process(scene.second)
    count = sum(table.num_rows for table in engine.results.values())
    assert count or not check, "the query must find something, or the walk ends early"
    return walk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--files", choices=[*SCENES], nargs="*", default=[])
    parser.add_argument("--order", action="store_true")
    given = parser.parse_args()
    room = first_folder if given.flat else package_of
    for name, scene in SCENES.items():
        walk = walked(scene, room)
        every = changes([room(file) for file in walk.calls])
        print(name, len(walk.files), changes(walk.rooms), every, len(walk.calls))
        if name in given.files:
            for file, count in walk.files.most_common():
                print(f"  {count:4d} {file}")
            if given.order:
                print(walk.first)


if __name__ == "__main__":
    main()
