"""Follows one batch through a query and says which files it visits.

Whoever wants to know what happens to an event reads these files, and changes packages as often as
the walk does. The compiler is off, so that the functions of kernels count too. A first batch warms up
what is made once.

    python tools/walk.py                     a pattern, a windowed join, a join of documents: in short
    python tools/walk.py --files join        also the files, and how many functions of each are entered
    python tools/walk.py --tree join         also the functions, as they call each other
    PYTHONPATH=old/src python tools/walk.py --flat       a tree whose packages are its first folders

Three figures for each walk:

- files: those of which a function is entered;
- changes of package from one call to the next. Calls into `jit` are left out: what lies there are
  the words that kernels are written in, and a loop over events says them thousands of times;
- the same where each function counts once, when it is entered first: what a reader goes through.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
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
#: The words of kernels, in this tree and in a flat one.
WORDS = ("jit/", "kernels/runtime.py", "kernels/memory.py", "kernels/strings.py")

Batch = dict[str, dict[str, list[Any]]]


@dataclass(frozen=True)
class Scene:
    """Streams, a query, a batch to warm up, and the batch that is followed."""

    streams: str
    query: str
    first: Batch
    second: Batch


def _stock(start: int) -> Batch:
    return {"A": {"k": [1, 1], "v": [1, 2], "t": [start, start + 1]}}


def _pairs(start: int) -> Batch:
    """Two events of each stream, which meet."""
    times = [start, start + 1]
    return {name: {"k": [1, 1], "v": [1, 2], "t": times} for name in ("A", "B")}


def _documents(start: int) -> Batch:
    texts = ["<book><author>A</author></book>", "<blog><author>A</author></blog>", "<other/>"]
    times = [start, start + 1, start + 2]
    return {"S": {"id": [f"d{t}" for t in times], "doc": texts, "t": times}}


_TWO = """
CREATE STREAM A (k BIGINT, v BIGINT, t BIGINT) TIME t;
CREATE STREAM B (k BIGINT, v BIGINT, t BIGINT) TIME t;
"""
SCENES = {
    "pattern": Scene(
        _TWO,
        "SELECT * FROM FILTER{v < 9}(A) NEXT{$1.k = $2.k AND $2.v > $1.v AND DUR < 10} A",
        _stock(10),
        _stock(20),
    ),
    "join": Scene(
        _TWO,
        "Select A.k, A.v, B.v As w From A [Range 5], B [Range 5] Where A.k = B.k",
        _pairs(10),
        _pairs(20),
    ),
    "documents": Scene(
        "CREATE STREAM S (id STRING, doc XML, t BIGINT) TIME t;",
        "S//book->x1[./author->x2] FOLLOWED BY{x2 = x4, 10} S//blog->x3[./author->x4]",
        _documents(10),
        _documents(20),
    ),
}


@dataclass(frozen=True)
class Call:
    """A function of Braid that was entered: its file, its name, and how deep below the first one."""

    file: str
    name: str
    depth: int
    code: CodeType


@dataclass
class Walk:
    """The calls of one batch, in order."""

    calls: list[Call] = field(default_factory=list)

    def note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and _is_own(code):
            file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            self.calls.append(Call(file, code.co_qualname, _depth(frame), code))

    @property
    def first(self) -> list[Call]:
        """Each function where it is entered first."""
        return list({call.code: call for call in reversed(self.calls)}.values())[::-1]

    @property
    def files(self) -> Counter[str]:
        """The files, and how many functions of each are entered."""
        return Counter(call.file for call in self.first)


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(str(PACKAGE))


def _depth(frame: FrameType) -> int:
    depth, above = 0, frame.f_back
    while above is not None:
        depth += _is_own(above.f_code)
        above = above.f_back
    return depth


def package_of(file: str) -> str:
    first, *rest = file.removesuffix(".py").split("/")
    return f"{first}/{rest[0]}" if first in NESTED and len(rest) > 1 else first


def first_folder(file: str) -> str:
    return file.removesuffix(".py").partition("/")[0]


def changes(calls: list[Call], package: Callable[[str], str]) -> int:
    """How often the package changes from one call to the next."""
    packages = [package(call.file) for call in calls if not call.file.startswith(WORDS)]
    return sum(one != other for one, other in pairwise(packages))


@contextmanager
def followed(walk: Walk) -> Iterator[None]:
    sys.setprofile(walk.note)
    try:
        yield
    finally:
        sys.setprofile(None)


def walked(scene: Scene) -> Walk:
    """The walk of the second batch of a scene."""
    engine, walk = braid.Engine(), Walk()
    engine.execute(scene.streams)
    engine.query("q", scene.query)
    engine.process(scene.first)
    with followed(walk):
        engine.process(scene.second)
    assert engine.results, "a query that finds nothing shows a part of its walk"
    return walk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--flat", action="store_true", help="packages are first folders")
    parser.add_argument("--files", choices=SCENES, action="append", default=[])
    parser.add_argument("--tree", choices=SCENES, action="append", default=[])
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of numbers that wrap around, as compiled ones do in silence
    package = first_folder if given.flat else package_of
    for name, scene in SCENES.items():
        walk = walked(scene)
        every, once = changes(walk.calls, package), changes(walk.first, package)
        print(f"{name}: {len(walk.files)} files, {every} changes of package, {once} if once each")
        for file, count in sorted(walk.files.items()) if name in given.files else ():
            print(f"  {count:4d} {file}")
        for call in walk.first if name in given.tree else ():
            print(f"  {'  ' * call.depth}{call.file} {call.name}")


if __name__ == "__main__":
    main()
