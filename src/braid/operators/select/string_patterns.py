"""The string patterns that clauses ask of one column, and which of them each text matches.

Texts are interned, so a text is scanned once, however often it comes: what it matches is kept by
its code. Patterns come and go while texts stay: new ones get an automaton of their own, which is
merged with older ones of its size, and a text that is known is scanned only for what is new.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from braid.jit import memory
from braid.jit.runtime import address
from braid.operators.core.values import Strings, Words
from braid.operators.select.kernels.string_patterns import (
    CONTAINS,
    ENDS_WITH,
    LIKE,
    STARTS_WITH,
    Automaton,
    Patterns,
    build_automaton,
    scan,
)

#: The names of the kinds of patterns, which are those of the functions.
KINDS = {
    "contains": CONTAINS,
    "starts_with": STARTS_WITH,
    "ends_with": ENDS_WITH,
    "like": LIKE,
}
#: What is believed of a pattern as long as no text was seen.
LIKELY = 0.01
#: So few dead patterns are not worth a new beginning.
FEW_DEAD = 64


class Pattern(NamedTuple):
    number: int
    born: int
    kind: int
    anchor: bytes
    text: bytes


class Layer(NamedTuple):
    """Patterns with their automaton."""

    members: list[Pattern]
    automaton: Automaton
    patterns: Patterns


class PatternSet:
    """Patterns by number; the law: `matching(code)` are those that the text of the code matches."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str], int] = {}
        self._named: dict[int, tuple[int, str]] = {}
        self._uses: dict[int, int] = {}
        self._pending: list[Pattern] = []
        self._layers: list[Layer] = []
        self._alive = np.zeros(64, np.int64)
        self._top = 0
        self._free: list[int] = []
        self._dead: list[int] = []
        self._born = 0
        self.forget()

    def __len__(self) -> int:
        return len(self._numbers)

    def forget(self) -> None:
        """Codes mean other texts from now on."""
        self._first: Words = np.full(64, -1, np.int64)
        self._count: Words = np.zeros(64, np.int64)
        self._known: Words = np.full(64, -1, np.int64)
        self._found: Words = np.zeros(64, np.int64)
        self._used = 0
        self._garbage = 0

    # Patterns come and go

    def add(self, kind: str, text: str) -> int:
        """The number of a pattern; it is to be removed as often as it is added."""
        name = (KINDS[kind], text)
        if name in self._numbers:
            number = self._numbers[name]
            self._uses[number] += 1
            return number
        number = self._free.pop() if self._free else self._top
        if number == self._top:
            self._top += 1
            if self._top > len(self._alive):
                self._alive = np.concatenate([self._alive, np.zeros_like(self._alive)])
        self._numbers[name], self._named[number], self._uses[number] = number, name, 1
        self._alive[number] = 1
        raw = text.encode()
        anchor = longest_literal(raw) if name[0] == LIKE else raw
        self._pending.append(Pattern(number, self._born, name[0], anchor, raw))
        self._born += 1
        return number

    def remove(self, number: int) -> None:
        """One use less; a number without any is given to another pattern only after a while."""
        self._uses[number] -= 1
        if self._uses[number]:
            return
        del self._uses[number]
        del self._numbers[self._named.pop(number)]
        self._alive[number] = 0
        self._dead.append(number)
        if len(self._dead) > max(FEW_DEAD, len(self)):
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Nothing may remember the dead when their numbers come back."""
        living = [p for layer in self._layers for p in layer.members] + self._pending
        self._layers = []
        self._pending = [p for p in living if self._alive[p.number]]
        self._free.extend(self._dead)
        self._dead = []
        self.forget()

    def _settle(self) -> None:
        """Give pending patterns an automaton, together with those of layers that are not larger."""
        members = self._pending
        if not members:
            return
        self._pending = []
        while self._layers and len(self._layers[-1].members) <= 2 * len(members):
            older = self._layers.pop().members
            members = [p for p in older if self._alive[p.number]] + members
        self._layers.append(_layer(members))

    # Texts are scanned

    def refresh(self, strings: Strings, codes: Words) -> None:
        """See to it that what these codes match is known; what is no code of a text is passed over."""
        self._settle()
        self._reserve(strings.count)
        codes = codes[(codes >= 0) & (codes < strings.count)]
        todo = np.unique(codes[self._known[codes] != self._born])
        if not len(todo):
            return
        rows, numbers = [self._rows_of(todo)], [self._lists_of(todo)]
        counts = np.empty(len(todo), np.int64)
        for layer in self._layers:
            found = scan(
                layer.automaton,
                layer.patterns,
                address(strings.description),
                todo,
                self._known,
                self._alive,
                counts,
            )
            numbers.append(memory.taken(found.words, found.count))
            rows.append(np.repeat(np.arange(len(todo)), counts))
        self._enter(todo, np.concatenate(rows), np.concatenate(numbers))

    def _rows_of(self, codes: Words) -> Words:
        return np.repeat(np.arange(len(codes)), self._count[codes])

    def _lists_of(self, codes: Words) -> Words:
        """What codes are known to match, one after the other."""
        counts = self._count[codes]
        ends = np.cumsum(counts)
        within = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
        return self._found[np.repeat(self._first[codes], counts) + within]

    def _enter(self, codes: Words, rows: Words, numbers: Words) -> None:
        order = np.lexsort((numbers, rows))
        counts = np.bincount(rows, minlength=len(codes))
        self._garbage += int(self._count[codes].sum())
        self._room(len(numbers))
        self._found[self._used : self._used + len(numbers)] = numbers[order]
        self._first[codes] = self._used + np.cumsum(counts) - counts
        self._count[codes] = counts
        self._known[codes] = self._born
        self._used += len(numbers)
        if 2 * self._garbage > self._used + 64:
            self._compact()

    def _room(self, more: int) -> None:
        need = self._used + more
        if need > len(self._found):
            self._found = memory.resized_array(self._found, max(need, len(self._found) * 3 // 2))

    def _compact(self) -> None:
        codes = np.flatnonzero(self._first >= 0)
        lists, counts = self._lists_of(codes), self._count[codes]
        self._found, self._used, self._garbage = lists.copy(), len(lists), 0
        self._first[codes] = np.cumsum(counts) - counts

    def _reserve(self, codes: int) -> None:
        have = len(self._first)
        if codes > have:
            more = max(codes, have * 3 // 2) - have
            self._first = np.concatenate([self._first, np.full(more, -1, np.int64)])
            self._count = np.concatenate([self._count, np.zeros(more, np.int64)])
            self._known = np.concatenate([self._known, np.full(more, -1, np.int64)])

    # What is known

    def matching(self, code: int) -> Words:
        """The living patterns that a refreshed text matches, by number."""
        first = int(self._first[code])
        numbers = self._found[first : first + int(self._count[code])]
        return numbers[self._alive[numbers] != 0]

    def memo(self) -> tuple[int, int, int, int, int, int]:
        """Addresses of first, count and found, how many codes there are, of what is known, and
        what must be known of a code for it to be fresh. They hold until the next call of anything."""
        return (
            int(address(self._first)),
            int(address(self._count)),
            int(address(self._found)),
            len(self._first),
            int(address(self._known)),
            self._born,
        )

    @property
    def likely(self) -> float:
        """How likely a text matches a pattern."""
        texts = int(np.count_nonzero(self._first >= 0))
        if texts == 0 or len(self) == 0:
            return LIKELY
        return (self._used - self._garbage + 1.0) / (texts * len(self) + 1.0 / LIKELY)

    @property
    def nbytes(self) -> int:
        arrays = [self._first, self._count, self._known, self._found, self._alive]
        for layer in self._layers:
            arrays.extend((*layer.automaton, *layer.patterns))
        texts = sum(
            len(p.anchor) + len(p.text) + 120 for layer in self._layers for p in layer.members
        )
        return sum(array.nbytes for array in arrays) + texts

    def describe(self) -> dict[str, Any]:
        return {
            "patterns": len(self),
            "automata": [len(layer.members) for layer in self._layers],
            "texts": int(np.count_nonzero(self._first >= 0)),
            "bytes": self.nbytes,
        }


def longest_literal(pattern: bytes) -> bytes:
    """The longest run of bytes that a text must contain to be LIKE a pattern."""
    runs, at = [bytearray()], 0
    while at < len(pattern):
        if pattern[at] in b"%_":
            runs.append(bytearray())
        else:
            if pattern[at] == 92 and at + 1 < len(pattern):  # backslash
                at += 1
            runs[-1].append(pattern[at])
        at += 1
    return bytes(max(runs, key=len))


def _layer(members: list[Pattern]) -> Layer:
    anchors = np.frombuffer(b"".join(p.anchor for p in members), np.uint8)
    offsets = _offsets([len(p.anchor) for p in members])
    states = len(anchors) + 1
    fail, outputs, nearest = (np.zeros(states, np.int64) for _ in range(3))
    edges = np.zeros(1 << (2 * states).bit_length(), np.int64)
    following = np.zeros(len(members), np.int64)
    used = build_automaton(anchors, offsets, Automaton(edges, fail, outputs, nearest, following))
    fail, outputs, nearest = (array[:used].copy() for array in (fail, outputs, nearest))
    automaton = Automaton(edges, fail, outputs, nearest, following)
    like = [p.text if p.kind == LIKE else b"" for p in members]
    patterns = Patterns(
        np.array([p.number for p in members], np.int64),
        np.array([p.born for p in members], np.int64),
        np.array([p.kind for p in members], np.int64),
        np.diff(offsets),
        _offsets([len(text) for text in like]),
        np.frombuffer(b"".join(like), np.uint8).copy(),
    )
    return Layer(members, automaton, patterns)


def _offsets(sizes: list[int]) -> Words:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
