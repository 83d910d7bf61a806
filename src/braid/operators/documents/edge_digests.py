"""What edges are, as content: the numbers of edges depend on the order in which queries came."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from braid.operators.core.values import Strings, Words
from braid.operators.documents.kernels import match as kernel

Known = Mapping[tuple[int, ...], int]

_NOBODY = -2


class Texts:
    """The texts of names and constants."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._known: dict[int, str | None] = {kernel.ANY: None}

    def __getitem__(self, code: int) -> str | None:
        if code not in self._known:
            self._known[code] = self._strings.array(np.array([code], np.int64), None)[0].as_py()
        return self._known[code]


class EdgeSigns:
    """A digest for each predicate, state and edge, by number; what is known stays."""

    def __init__(self) -> None:
        self._predicates: list[bytes] = []
        self._states: list[bytes] = []
        self.edges: list[bytes] = []

    def add(
        self,
        predicates: Known,
        sets: Sequence[Sequence[int]],
        states: Known,
        edges: Known,
        texts: Texts,
    ) -> None:
        """What has come since the last time; all are in the order of their numbers."""
        for axis, name, operator, kind, constant, asked in list(predicates)[
            len(self._predicates) :
        ]:
            value = texts[constant] if kind == kernel.TEXT else constant
            known = texts[name] if axis != kernel.SELF else None
            below = self._asked(sets[asked])
            self._predicates.append(_sign(axis, known, operator, kind, value, below))
        for above, axis, name, asked in list(states)[len(self._states) :]:
            if above < 0:
                self._states.append(_sign("input", axis))
            else:
                below = self._asked(sets[asked])
                self._states.append(_sign(self._states[above], axis, texts[name], below))
        for state, mask in list(edges)[len(self.edges) :]:
            self.edges.append(_sign(self._states[state], mask))

    def _asked(self, predicates: Sequence[int]) -> tuple[bytes, ...]:
        return tuple(self._predicates[number] for number in predicates)


def renumbered(old: Words, new: Words) -> Words:
    """The number that each edge has now; one that no query has any more gets one that nobody asks for."""
    known = {tuple(sign): number for number, sign in enumerate(new.tolist())}
    return np.array([known.get(tuple(sign), _NOBODY) for sign in old.tolist()], np.int64)


def _sign(*parts: object) -> bytes:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()
