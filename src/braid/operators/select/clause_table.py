"""Predicates of many members over the rows of one channel: tests in an index, the rest compiled.

A *target* is what a predicate stands for: a node of the m-op that owns the table. A row has a
target exactly if one of the target's clauses holds for it and its residual is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braid.algebra.expressions import Expression, Source, is_true
from braid.jit import codegen
from braid.operators.core.base import Context
from braid.operators.core.columns import Rows
from braid.operators.core.constants import Constants
from braid.operators.core.kernels.clauses import (
    HIGHEST,
    IN,
    INTERVAL,
    IS_NULL,
    LOWEST,
    NOT_EQUAL,
    NOT_IN,
    NOT_NULL,
    NULL_KEY,
    PATTERN,
    Clauses,
)
from braid.operators.core.kernels.keys import DURATION, FLOAT, NUMBER_AS_FLOAT, WORD, keys_of
from braid.operators.core.kernels.rows import verify_pairs
from braid.operators.core.nodes import grown
from braid.operators.core.selection_settings import SelectionSettings
from braid.operators.core.values import Words
from braid.operators.select.index import AdaptiveIndex
from braid.operators.select.string_patterns import PatternSet
from braid.plan import predicates
from braid.plan.predicates import TEXT_TESTS, Atom, Clause, KeyColumn, Predicate
from braid.plan.specs import Shape

_MODES = {
    predicates.WORD: WORD,
    predicates.FLOAT: FLOAT,
    predicates.NUMBER_AS_FLOAT: NUMBER_AS_FLOAT,
}
_KINDS = {"ne": NOT_EQUAL, "in": IN, "not in": NOT_IN, "null": IS_NULL, "not null": NOT_NULL}


def mode_of(key: KeyColumn) -> int:
    return DURATION if key.name is None else _MODES[key.mode]


def limits(atom: Atom, constants: Constants) -> tuple[int, Words, Words]:
    """Kind, lo and hi of an atom for each member; an array of one is for all."""
    mode = atom.key.mode
    match atom.kind:
        case "between":
            low = np.array([LOWEST]) if atom.low is None else constants.keys(atom.low, mode)
            high = np.array([HIGHEST]) if atom.high is None else constants.keys(atom.high, mode)
            if atom.low_open:
                low = low + 1
            if atom.high_open:
                high = high - 1
            return INTERVAL, low, high
        case "ne":
            assert atom.low is not None
            value = constants.keys(atom.low, mode)
            return NOT_EQUAL, value, value
        case _:
            nothing = np.zeros(1, np.int64)
            return _KINDS[atom.kind], nothing, nothing


def among(atom: Atom, constants: Constants) -> Words:
    """The sorted values of an IN list of each member, one row each."""
    count = constants.count
    columns = [np.broadcast_to(constants.keys(c, atom.key.mode), (count,)) for c in atom.among]
    return np.sort(np.stack(columns, axis=1), axis=1)


class ClauseTable:
    """`numbered`: rows belong to nodes, and a predicate looks at those of one of them."""

    def __init__(
        self,
        shape: Shape,
        context: Context,
        *,
        numbered: bool = False,
        settings: SelectionSettings,
    ) -> None:
        self._shape = shape
        self._context = context
        self._numbered = numbered
        self._keys: dict[KeyColumn, int] = {}
        self._patterns: dict[int, PatternSet] = {}
        self._asked: dict[int, list[tuple[int, int]]] = {}
        self.index = AdaptiveIndex(settings, self._patterns)
        self._targets: Words = np.zeros(8, np.int64)
        self._first_clause: Words = np.full(8, -1, np.int64)
        self._clause_count: Words = np.zeros(8, np.int64)
        self._next_clause = 0
        self._free: list[tuple[int, int]] = []
        self._several = False
        self._residual_of: Words = np.full(8, -1, np.int64)
        self._residual_at: Words = np.zeros(8, np.int64)
        self._residuals: dict[Expression, int] = {}
        self._functions: list[Any] = []
        self._widths: list[int] = []
        self._parameters: Words = np.zeros(8, np.int64)
        self._used = 0
        self.count = 0

    # ---- members ----

    def add(
        self, predicate: Predicate, constants: Constants, targets: Words, nodes: Words | None
    ) -> None:
        """Give each target its predicate; `nodes`: whose rows it looks at, if rows have nodes."""
        if not len(targets):
            return
        count = len(predicate.clauses)
        numbers = self._numbers(len(targets), count)
        self._reserve(int(targets.max()) + 1)
        for k, clause in enumerate(predicate.clauses):
            ids = numbers + k
            self._targets[ids] = targets
            made = self._clauses(clause, constants, nodes, targets)
            self.index.add(made, ids.astype(np.int32))
        self._first_clause[targets] = numbers
        self._clause_count[targets] = count
        self._several |= count > 1
        self.count += len(targets)
        self._add_residual(predicate, constants, targets)

    def _numbers(self, members: int, count: int) -> Words:
        """The first of `count` numbers in a row for each member."""
        reused = []
        if members <= len(self._free):
            fitting = [i for i, (_, size) in enumerate(self._free[-64:]) if size == count]
            if len(fitting) >= members:
                offset = max(0, len(self._free) - 64)
                for i in sorted(fitting[-members:], reverse=True):
                    reused.append(self._free.pop(offset + i)[0])
                return np.array(reused, np.int64)
        first = self._next_clause
        self._next_clause += members * count
        self._targets = grown(self._targets, self._next_clause)
        return first + count * np.arange(members, dtype=np.int64)

    def _reserve(self, needed: int) -> None:
        self._first_clause = grown(self._first_clause, needed, -1)
        self._clause_count = grown(self._clause_count, needed)
        self._residual_of = grown(self._residual_of, needed, -1)
        self._residual_at = grown(self._residual_at, needed)

    def _column(self, key: KeyColumn) -> int:
        if key not in self._keys:
            self._keys[key] = len(self._keys) + self._numbered
            self.index.widen(len(self._keys) + self._numbered)
        return self._keys[key]

    def _clauses(
        self, clause: Clause, constants: Constants, nodes: Words | None, targets: Words
    ) -> Clauses:
        """The same conjunction for each member, with its own constants."""
        members = constants.count
        columns, kinds = [], []
        lows: list[Words] = []
        highs: list[Words] = []
        sets: list[Words] = []
        size = 0
        if nodes is not None:
            columns.append(0)
            kinds.append(INTERVAL)
            lows.append(nodes)
            highs.append(nodes)
        for atom in clause:
            if atom.kind in TEXT_TESTS:
                kind = PATTERN
                low = high = self._new_patterns(atom, constants, targets)
            else:
                kind, low, high = limits(atom, constants)
            if atom.among:
                values = among(atom, constants)
                low = size + values.shape[1] * np.arange(members)
                high = low + values.shape[1]
                size += values.size
                sets.append(values.reshape(-1))
            columns.append(self._column(atom.key))
            kinds.append(kind)
            lows.append(low)
            highs.append(high)
        atoms = len(columns)
        self.index.widen(len(self._keys) + self._numbered)
        return Clauses(
            atoms * np.arange(members + 1, dtype=np.int64),
            np.tile(np.array(columns, np.int64), members),
            np.tile(np.array(kinds, np.int64), members),
            _interleaved(lows, members),
            _interleaved(highs, members),
            np.concatenate(sets).astype(np.int64) if sets else np.empty(0, np.int64),
        )

    def _new_patterns(self, atom: Atom, constants: Constants, targets: Words) -> Words:
        """The number of each member's text among those that its column is compared with."""
        assert atom.low is not None
        column = self._column(atom.key)
        patterns = self._patterns.setdefault(column, PatternSet())
        codes = np.broadcast_to(constants.words(atom.low), (len(targets),))
        distinct, places = np.unique(codes, return_inverse=True)
        texts = self._context.values.strings.array(distinct, None).to_pylist()
        numbers = np.empty(len(targets), np.int64)
        for row, (target, place) in enumerate(zip(targets.tolist(), places.tolist(), strict=True)):
            numbers[row] = patterns.add(atom.kind, texts[place])
            self._asked.setdefault(target, []).append((column, int(numbers[row])))
        return numbers

    def _add_residual(self, predicate: Predicate, constants: Constants, targets: Words) -> None:
        if is_true(predicate.residual):
            self._residual_of[targets] = -1
            return
        number = self._residuals.get(predicate.residual)
        if number is None:
            number = self._residuals[predicate.residual] = len(self._functions)
            places = {Source.INPUT: codegen.Place("e", self._shape.layout)}
            self._functions.append(codegen.predicate(predicate.residual, places).compiled)
            self._widths.append(len(predicate.constants))
        width, members = len(predicate.constants), len(targets)
        self._parameters = grown(self._parameters, self._used + width * members + 1)
        words = [constants.words(c) for c in predicate.constants]
        end = self._used + width * members
        self._parameters[self._used : end] = _interleaved(words, members)
        self._residual_of[targets] = number
        self._residual_at[targets] = self._used + width * np.arange(members)
        self._used = end

    def remove(self, targets: Words) -> None:
        """Forget the predicates of these targets."""
        if not len(targets):
            return
        firsts, counts = self._first_clause[targets], self._clause_count[targets]
        ids = np.concatenate([f + np.arange(c) for f, c in zip(firsts, counts, strict=True)])
        self.index.remove(ids.astype(np.int32))
        self._free.extend(zip(firsts.tolist(), counts.tolist(), strict=True))
        for target in targets.tolist() if self._asked else ():
            for column, number in self._asked.pop(target, ()):
                self._patterns[column].remove(number)
        self._first_clause[targets] = -1
        self._residual_of[targets] = -1
        self.count -= len(targets)
        if self.count == 0:
            self._parameters, self._used = np.zeros(8, np.int64), 0
            self._next_clause, self._free = 0, []
            self._targets, self._several = np.zeros(8, np.int64), False
        if 8 * self.count < len(self._first_clause):
            self._trim()

    def _trim(self) -> None:
        """Few targets are left: give the memory of the highest ones back."""
        high = max(8, int(np.flatnonzero(self._first_clause >= 0).max(initial=-1)) + 1)
        self._first_clause = self._first_clause[:high].copy()
        self._clause_count = self._clause_count[:high].copy()
        self._residual_of = self._residual_of[:high].copy()
        self._residual_at = self._residual_at[:high].copy()
        # The same for the numbers of clauses, which lie in rows for each target.
        alive = self._first_clause >= 0
        ends = self._first_clause[alive] + self._clause_count[alive]
        self._next_clause = int(ends.max(initial=0))
        self._free = [(first, size) for first, size in self._free if first < self._next_clause]
        self._targets = self._targets[: max(8, self._next_clause)].copy()

    # ---- events ----

    def match(
        self, rows: Rows, places: np.ndarray | None, nodes: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a row and a target. `places`, `nodes`: the rows in question, whose they are."""
        at, clauses = self.match_clauses(rows, places, nodes)
        targets = self._targets[clauses]
        if self._several and len(at):
            both = np.unique((at.astype(np.int64) << 32) | targets)
            at, targets = (both >> 32).astype(np.int32), both & 0xFFFFFFFF
        if self._functions:
            shown = rows if places is None else rows[places]
            at, targets = self._verified(shown, at, targets)
        return (at if places is None else places[at]), targets

    @property
    def direct(self) -> bool:
        """Whether each clause that holds is one target, and nothing else is asked."""
        return not self._several and not self._functions

    @property
    def targets(self) -> Words:
        """The target of each clause."""
        return self._targets

    @property
    def clause_numbers(self) -> int:
        """All clauses have numbers below this."""
        return self._next_clause

    def match_clauses(
        self, rows: Rows, places: np.ndarray | None, nodes: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a row, by its number among those in question, and a clause that holds."""
        shown = rows if places is None else rows[places]
        if not len(shown) or not self.count:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        keys = self._keys_of(shown, nodes)
        for column, patterns in self._patterns.items():
            codes = np.unique(keys[:, column])
            patterns.refresh(self._context.values.strings, codes[codes != NULL_KEY])
        found = self.index.match(keys)
        return found.rows, found.clauses

    def _keys_of(self, rows: Rows, nodes: np.ndarray | None) -> np.ndarray:
        layout = self._shape.layout
        columns = [0 if k.name is None else layout.column(k.name) for k in self._keys]
        modes = [mode_of(k) for k in self._keys]
        keys = keys_of(
            np.ascontiguousarray(rows),
            np.array(columns, np.int64),
            np.array(modes, np.int64),
            layout.base,
        )
        if nodes is None:
            return keys
        return np.column_stack([nodes.astype(np.int64), keys])

    def _verified(
        self, rows: Rows, at: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Only the pairs whose residual is true."""
        kinds = self._residual_of[targets]
        keep = np.ones(len(at), np.bool_)
        strings = self._context.addresses(self._parameters)
        for number, function in enumerate(self._functions):
            asked = np.flatnonzero(kinds == number)
            if len(asked):
                keep[asked] = verify_pairs(
                    np.ascontiguousarray(rows),
                    at[asked].astype(np.int64),
                    self._residual_at[targets[asked]],
                    function,
                    strings,
                )
        return at[keep], targets[keep]

    # ---- the rest ----

    def forget_codes(self) -> None:
        """Strings have new codes: what was known of their texts is void."""
        for patterns in self._patterns.values():
            patterns.forget()

    @property
    def nbytes(self) -> int:
        arrays = (
            self._targets,
            self._first_clause,
            self._clause_count,
            self._residual_of,
            self._residual_at,
            self._parameters,
        )
        return self.index.nbytes + sum(array.nbytes for array in arrays)

    def describe(self) -> dict[str, Any]:
        names = ["member"] if self._numbered else []
        names += [key.name or "DUR" for key in self._keys]
        own = {"predicates": self.count, "columns": names, "compiled": len(self._functions)}
        return {**own, **self.index.describe()}


def _interleaved(columns: Sequence[Words], members: int) -> Words:
    """The columns of each member after each other."""
    if not columns:
        return np.empty(0, np.int64)
    out = np.empty((members, len(columns)), np.int64)
    for k, column in enumerate(columns):
        out[:, k] = column
    return out.reshape(-1)
