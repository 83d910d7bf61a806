"""What a log keeps to verify by: times and join attributes of its events, in chains by hash."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from braid.jit.runtime import address
from braid.operators.core import checks
from braid.operators.core.base import State
from braid.operators.core.values import Words
from braid.operators.detect.growable import room, shifted
from braid.operators.detect.kernels import verify as kernel

#: Links are 32 bits: beyond so many events chains are hung anew.
_MOST_LINKS = 2**31 - 1
_LEAST_HEADS = 16


class Chains:
    """The events of a log by what they are compared by at one edge. Links are numbers of events,
    counted from `base`; the newest comes first, so what is gone ends a chain by itself."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.base = 0
        self.heads = np.full(_LEAST_HEADS, -1, np.int32)
        self.following = np.zeros(0, np.int32)


class Keys:
    """The kept events of one log; they lie in the order of their numbers, from `first` on."""

    def __init__(self, rows: int | None) -> None:
        #: How many rows the window has, if it is one by rows.
        self._rows = rows
        self.columns: list[str] = []
        self.chains: list[Chains] = []
        self.kept = np.zeros((0, kernel.KEYS), np.int64)
        self._positions: Words = np.zeros(0, np.int64)

    def ask(self, columns: Sequence[str]) -> int:
        """These columns are compared at an edge; the number of its chains."""
        wanted = tuple(columns)
        known = [chains.columns for chains in self.chains]
        if wanted not in known:
            self.columns += [name for name in dict.fromkeys(wanted) if name not in self.columns]
            self.kept = np.zeros((0, kernel.KEYS + len(self.columns)), np.int64)
            self.chains.append(Chains(wanted))
            known.append(wanted)
        return known.index(wanted)

    # ---- events ----

    def append(
        self, held: int, first: int, times: tuple[Words, Words], keys: Mapping[str, Words]
    ) -> None:
        """More events after the `held` ones, which begin with number `first`: when they came and,
        if that is known, left; and their keys."""
        came, left = times
        count = len(came)
        self.kept = room(self.kept, held, count)
        new = self.kept[held : held + count]
        new[:, kernel.CAME], new[:, kernel.LEFT] = came, left
        for place, name in enumerate(self.columns):
            new[:, kernel.KEYS + place] = keys[name]
        for chains in self.chains:
            self._hang(chains, held, held + count, first)

    def place(self, held: int, positions: Words) -> None:
        """The positions of the events after the `held` ones among all that move the window."""
        self._positions = room(self._positions, held, len(positions))
        self._positions[held : held + len(positions)] = positions

    def resolve(self, held: int, ends: Words, rows: int) -> None:
        """The window has seen `rows` events, the last of them at `ends`: note who has left."""
        assert self._rows is not None
        before = rows - len(ends)
        positions, left = self._positions[:held], self.kept[:held, kernel.LEFT]
        new = np.searchsorted(positions, before - self._rows, "right")
        gone = np.searchsorted(positions, rows - self._rows, "right")
        left[new:gone] = ends[positions[new:gone] + self._rows - before - 1]

    def _hang(self, chains: Chains, low: int, high: int, first: int) -> None:
        chains.following = room(chains.following, low, high - low)
        if high > len(chains.heads) or first + high - chains.base > _MOST_LINKS:
            size = len(chains.heads)
            while size < high:
                size *= 2
            chains.heads, chains.base, low = np.full(size, -1, np.int32), first, 0
        columns = np.array([self.columns.index(name) for name in chains.columns], np.int64)
        kernel.hang(
            address(self.kept),
            self.kept.shape[1],
            columns,
            chains.heads,
            chains.following,
            low,
            high,
            chains.base - first,
        )

    def move(self, low: int, high: int, first: int) -> None:
        """Only the events from `low` to `high` are left, which begin with number `first`. Tables
        that a large round has made much too large are made anew."""
        held = high - low
        self.kept = shifted(self.kept, low, high)
        if self._rows is not None:
            self._positions = shifted(self._positions, low, high)
        for chains in self.chains:
            chains.following = shifted(chains.following, low, high)
            if len(chains.heads) > max(_LEAST_HEADS, 4 * held):
                chains.heads = np.full(_LEAST_HEADS, -1, np.int32)
                chains.base = first
                self._hang(chains, 0, held, first)

    def rehang(self, held: int, first: int) -> None:
        """Hang all chains anew: the words of keys have changed."""
        for chains in self.chains:
            chains.heads[:] = -1
            chains.base = first
            self._hang(chains, 0, held, first)

    def step(self, number: int, first: int) -> tuple[int, int, int, int]:
        """For the kernel: where chains are, and how their links are read."""
        chains = self.chains[number]
        mask = len(chains.heads) - 1
        return address(chains.heads), mask, address(chains.following), chains.base - first

    # ---- state ----

    def codes(self, place: int, held: int) -> Words:
        """One column of the kept events, as it lies."""
        return self.kept[:held, kernel.KEYS + place]

    @property
    def nbytes(self) -> int:
        own = sum(chains.heads.nbytes + chains.following.nbytes for chains in self.chains)
        return own + self.kept.nbytes + self._positions.nbytes

    def bytes_for(self, edges: Collection[int]) -> int:
        """What is held for these chains, without the columns that only others compare."""
        own = [self.chains[number] for number in edges]
        columns = {name for chains in own for name in chains.columns}
        words = 8 * (kernel.KEYS + len(columns)) * len(self.kept)
        links = sum(chains.heads.nbytes + chains.following.nbytes for chains in own)
        return words + links + self._positions.nbytes

    def saved(self, held: int) -> State:
        """Columns by their names: after a restart others may be asked for."""
        state: State = {"times": self.kept[:held, : kernel.KEYS].copy()}
        for place, name in enumerate(self.columns):
            state[f"key/{name}"] = self.codes(place, held).copy()
        if self._rows is not None:
            state["positions"] = self._positions[:held].copy()
        return state

    def check(self, state: State, held: int, rows: int) -> None:
        checks.sized(checks.table(state, "times", kernel.KEYS), held, "events to verify by")
        for name in self.columns:
            checks.sized(state[f"key/{name}"], held, "values to verify by")
        if self._rows is not None:
            checks.sized(state["positions"], held, "positions of events")
            checks.within(state["positions"], 0, rows + 1, "positions of events")
            checks.ascending(state["positions"], "positions of events")

    def load(self, state: State, held: int, first: int) -> None:
        self.kept = np.empty((held, kernel.KEYS + len(self.columns)), np.int64)
        self.kept[:, : kernel.KEYS] = state["times"].reshape(held, kernel.KEYS)
        for place, name in enumerate(self.columns):
            self.kept[:, kernel.KEYS + place] = state[f"key/{name}"]
        if self._rows is not None:
            self._positions = state["positions"].copy()
        self.rehang(held, first)
