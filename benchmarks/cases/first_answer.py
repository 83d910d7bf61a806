"""The wait for the first answer of a query of each kind, in processes of their own.

`fresh` starts with an empty cache directory and the kernels that came with the package, `second` with what
the first process has left, `without_packs` with an empty cache directory and no compiled kernels. All must
give as many answers. On Spark, the time is that of the first batch, with the start of the workers.

A round measures every kind once. The seconds of a variant are those of all kinds together; `longest` is the
longest wait of one kind.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.first_answers import KINDS, first_answer
from benchmarks.harness import Case, Figure, Measured, Prepared, Ratio, Ratios, Size, Variants

#: Without packs a pattern waits for ten seconds of compiling, which is what `pattern_kernel` measures.
SMALL: dict[str, Any] = {"kinds": ("selection", "pattern"), "on_spark": (), "without_packs": ()}
FULL: dict[str, Any] = {
    "kinds": tuple(KINDS),
    "on_spark": tuple(KINDS),
    "without_packs": tuple(KINDS),
}


class Waiting:
    """Processes that answer one query each; `warm`: after another one has."""

    def __init__(
        self, size: Size, kinds: str = "kinds", *, warm: bool = False, **how: bool
    ) -> None:
        self._kinds: tuple[str, ...] = size[kinds]
        self._warm, self._how = warm, how
        self._folder = Path(tempfile.mkdtemp(prefix="braid-bench-"))

    def prepare(self) -> Prepared:
        for kind in self._kinds if self._warm else ():
            first_answer(kind, self._folder / kind, **self._how)
        return Prepared()

    def measure(self) -> Measured:
        found = {}
        for kind in self._kinds:
            if not self._warm:
                shutil.rmtree(self._folder / kind, ignore_errors=True)
            found[kind] = first_answer(kind, self._folder / kind, **self._how)
        waits = {f"{kind} s": each["answer_s"] for kind, each in found.items()}
        extra = {"longest": max(waits.values(), default=0.0), **waits}
        if imports := [each["import_s"] for each in found.values() if "import_s" in each]:
            extra["import braid s"] = min(imports)
        answers = {kind: each["answers"] for kind, each in found.items()}
        seconds = sum(waits.values()) or 1.0
        return Measured(seconds, max(len(found), 1), answers, extra=extra)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _variants(size: Size) -> Variants:
    made: dict[str, Any] = {"fresh": Waiting, "second": partial(Waiting, warm=True)}
    if size["without_packs"]:
        made["without_packs"] = partial(Waiting, kinds="without_packs", packs=False)
    if size["on_spark"]:
        made["spark"] = partial(Waiting, kinds="on_spark", on_spark=True)
    return made


def _ratios(size: Size) -> Ratios:
    figures = (Figure(f"longest {name}", name, "longest") for name in _variants(size))
    return (Ratio("second/fresh", of="time", over="second", by="fresh"), *figures)


CASE = Case(
    name="first_answer",
    about="the wait for the first answer in a fresh process, for each kind of query",
    sizes={"small": SMALL, "full": FULL},
    variants=_variants,
    ratios=_ratios,
    shares_process=True,
)
