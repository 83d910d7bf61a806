"""What every log of a detection has, whether it is of all events or of those of many keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from braid.algebra.detection import END_OF_TICKS, END_OF_TIME, NEVER
from braid.algebra.schema import TICKS
from braid.operators.core import checks
from braid.operators.core.base import State
from braid.operators.core.values import Words
from braid.operators.detect.kernels.synopses import HALF, LOW
from braid.operators.detect.spec import Dimension


class LogKey(NamedTuple):
    """What a log is of: a source, what its events are (128 bits), the window, the batches, and the
    columns of the key that all this is for one value of."""

    source: int
    content: tuple[int, int]
    kind: str
    size: int
    batch: int
    within: int | None
    by: tuple[str, ...] = ()


class Arrived(NamedTuple):
    """Events of one batch of the engine that are a log's: all in order, which of them count."""

    ends: Words
    counting: Words


_NONE = np.zeros(0, np.int64)


class Ended(NamedTuple):
    """Batches that have ended: first instant, last instant; their events by number, or whose they
    are if they are of keys."""

    began: Words
    ended: Words
    low: Words = _NONE
    high: Words = _NONE
    slots: Words = _NONE


#: No batch has ended.
NOTHING = Ended(_NONE, _NONE)


def check_cells(words: Words, held: int, dimensions: Sequence[Dimension]) -> None:
    """Entries of a synopsis, two in a word, have buckets that it has."""
    checks.sized(words, (held + 1) // 2, "entries of synopses")
    check_buckets(words.view(np.int32)[:held], dimensions)


def check_buckets(cells: np.ndarray, dimensions: Sequence[Dimension]) -> None:
    """The bucket of each event, one for each dimension in one number, is one of a synopsis."""
    for dimension in reversed(dimensions[1:]):
        checks.within(cells & LOW, 0, dimension.buckets, "buckets of events")
        cells = cells >> HALF
    checks.within(cells, 0, dimensions[0].buckets, "buckets of events")


class AnyLog(ABC):
    def __init__(self, key: LogKey, node: int, unit: str) -> None:
        self.key = key
        self.node = node
        self.uses = 0
        #: The detections that read it.
        self.readers: set[int] = set()
        self._last = END_OF_TICKS if unit == TICKS else END_OF_TIME
        #: Synopses by how they are hashed; whether each is a bitmap; the entry of each event.
        self.dimensions: list[tuple[Dimension, ...]] = []
        self.packed: list[bool] = []
        self.cells: list[np.ndarray] = []

    # ---- what is kept ----

    def synopsis(self, dimensions: tuple[Dimension, ...], bits: bool) -> tuple[int, bool]:
        """The number of a synopsis, and whether it lies the other way round. `bits`: a bitmap will
        do, if the log can hold one."""
        packed = bits and self._holds_bits
        lying = tuple(sorted(dimensions, key=lambda d: (d.columns, d.buckets)))
        known = list(zip(self.dimensions, self.packed, strict=True))
        if (lying, packed) not in known:
            assert not self.count, "a log that has begun gets no more synopses"
            known.append((lying, packed))
            self.dimensions.append(lying)
            self.packed.append(packed)
            self.cells.append(np.zeros(0, np.int32))
            self._add_synopsis(lying, packed)
        return known.index((lying, packed)), lying != dimensions

    @property
    @abstractmethod
    def _holds_bits(self) -> bool:
        """Whether bitmaps are held as bits."""

    @abstractmethod
    def _add_synopsis(self, dimensions: tuple[Dimension, ...], packed: bool) -> None:
        """What else is kept of a synopsis."""

    def _synopsis_names(self) -> list[str]:
        """What each synopsis is called in a snapshot, whoever else is there."""
        return [
            ("bits" if packed else "cells")
            + "".join(f"/{d.buckets}:{','.join(d.columns)}" for d in dimensions)
            for dimensions, packed in zip(self.dimensions, self.packed, strict=True)
        ]

    @abstractmethod
    def keep(self, columns: Sequence[str]) -> int:
        """Verification needs these columns; the number of the chains by them."""

    @property
    @abstractmethod
    def key_columns(self) -> Sequence[str]:
        """The columns that are kept to verify by."""

    def _left(self, ends: Words) -> Words:
        """When events leave the window, where their time alone says it."""
        if self.key.kind in ("rows", "unbounded"):
            return np.full(len(ends), NEVER, np.int64)
        size = self.key.size
        return np.where(ends > NEVER - size - 1, NEVER, ends + min(size + 1, NEVER))

    @abstractmethod
    def is_due(self, bound: int) -> bool:
        """Whether a batch under way ends before an instant though nothing comes."""

    # ---- state ----

    @property
    @abstractmethod
    def count(self) -> int:
        """The events of which something is kept."""

    @property
    @abstractmethod
    def synopsis_bytes(self) -> int: ...

    @property
    @abstractmethod
    def key_bytes(self) -> int: ...

    @abstractmethod
    def bytes_for(self, synopses: Collection[int], edges: Collection[int]) -> int:
        """What is held for a detection that asks for these synopses and, to verify, these chains;
        what only others ask for is not counted."""

    @abstractmethod
    def saved(self) -> State: ...

    @abstractmethod
    def load(self, state: State) -> None: ...
