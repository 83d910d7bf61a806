"""The aggregates of SAMETIME over groups of events.

Values are ranked once per column (numbers by themselves, strings by their bytes, NaN above all).
Every aggregate then works on the events sorted by group and rank. An event can be in several groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.expressions import Ref
from braid.algebra.nodes import Aggregate
from braid.algebra.types import Kind, kind_of
from braid.operators.core.columns import Rows, nulls_of, set_nulls
from braid.operators.core.kernels.rows import ordered_sums
from braid.operators.core.values import Values, Words
from braid.operators.stream.spec import SameTimeSpec

_LOW = np.int64(0xFFFFFFFF)


@dataclass(frozen=True)
class _Column:
    """A column of the events in groups: words, which are not NULL, and the order of the values."""

    words: Words
    valid: np.ndarray
    ranks: Words
    kind: Kind

    def at(self, places: Words) -> _Column:
        """The column with the rows at these places."""
        return _Column(self.words[places], self.valid[places], self.ranks[places], self.kind)


class Aggregates:
    """The aggregates of one SAMETIME."""

    def __init__(self, spec: SameTimeSpec, values: Values) -> None:
        self._spec = spec
        self._values = values

    def write(self, rows: Rows, at: Words, group: Words, out: Rows) -> None:
        """Write the aggregates of each group into its row of `out`.

        `at` has the rows of the events, group after group. `group` has the group of each.
        """
        used = np.zeros(len(rows), np.bool_)
        used[at] = True
        if not used.all():
            at, rows = (np.cumsum(used) - 1)[at], rows[used]
        columns = {name: self._column(rows, name) for name in self._names()}
        if len(at) != len(rows) or (at[1:] < at[:-1]).any():
            columns = {name: column.at(at) for name, column in columns.items()}
        layout, count = self._spec.output.layout, len(out)
        chosen: dict[tuple[str, str], tuple[Words, Words]] = {}
        for target, aggregate in enumerate(self._spec.aggregates):
            if aggregate.function in ("max_by", "min_by"):
                words, valid = self._extreme_by(aggregate, columns, group, count, chosen)
            else:
                words, valid = _aggregate(aggregate, columns, group, count)
            out[:, layout.base + target] = words
            if not valid.all():
                set_nulls(out, target, ~valid)

    def _names(self) -> tuple[str, ...]:
        names = [ref.name for a in self._spec.aggregates for ref in a.args if isinstance(ref, Ref)]
        if any(a.function in ("max_by", "min_by") for a in self._spec.aggregates):
            names.extend(self._spec.order)
        return tuple(dict.fromkeys(names))

    def _column(self, rows: Rows, name: str) -> _Column:
        layout, type_ = self._spec.input.layout, self._spec.input.schema.type_of(name)
        column = layout.column(name)
        words = np.ascontiguousarray(rows[:, layout.base + column])
        nulls = nulls_of(rows, column)
        valid = np.ones(len(rows), np.bool_) if nulls is None else ~nulls
        return _Column(words, valid, self._ranks(words, valid, type_), kind_of(type_))

    def _ranks(self, words: Words, valid: np.ndarray, type_: pa.DataType) -> Words:
        """Integers in the order of the values; equal values have equal ranks."""
        kind = kind_of(type_)
        if kind is Kind.FLOAT:
            floats = words.view(np.float64) + 0.0  # -0.0 becomes 0.0
            floats[np.isnan(floats)] = np.inf
            _, ranks = np.unique(floats, return_inverse=True)
            return (2 * ranks + np.isnan(words.view(np.float64))).astype(np.int64)
        if kind is Kind.STRING:
            codes, inverse = np.unique(
                np.where(valid, words, words[valid][:1] if valid.any() else 0), return_inverse=True
            )
            if not valid.any():
                return np.zeros(len(words), np.int64)
            texts = self._values.strings.array(codes, None).cast(pa.binary())
            ranks = np.empty(len(codes), np.int64)
            ranks[pc.sort_indices(texts).to_numpy()] = np.arange(len(codes))
            return ranks[inverse]
        return words

    def _extreme_by(
        self,
        aggregate: Aggregate,
        columns: dict[str, _Column],
        group: Words,
        count: int,
        known: dict[tuple[str, str], tuple[Words, Words]],
    ) -> tuple[Words, np.ndarray]:
        """The value at the extreme. `known` has the events that aggregates of the same form chose."""
        value, by = (arg.name for arg in aggregate.args if isinstance(arg, Ref))
        largest = aggregate.function == "max_by"
        form = (aggregate.function, by)
        if form not in known:
            known[form] = self._extremes(columns[by], columns, group, largest=largest)
        groups, chosen = known[form]
        words, valid = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        words[groups] = columns[value].words[chosen]
        valid[groups] = columns[value].valid[chosen]
        return words, valid

    def _extremes(
        self, by: _Column, columns: dict[str, _Column], group: Words, *, largest: bool
    ) -> tuple[Words, Words]:
        """The groups that have a value, and the event at the extreme of each; ties go to the event
        with the smallest attributes, NULL first."""
        order = np.flatnonzero(by.valid)
        # Complement instead of negation: it reverses the order of every integer without overflow.
        ranks = ~by.ranks if largest else by.ranks
        order = order[np.lexsort((ranks[order], group[order]))]
        groups, first, sizes = np.unique(group[order], return_index=True, return_counts=True)
        best = np.repeat(ranks[order[first]], sizes) == ranks[order]
        if np.count_nonzero(best) > len(groups):
            order = order[best]
            keys: list[np.ndarray] = []
            for name in reversed(self._spec.order):
                column = columns[name]
                if column.kind is not Kind.OPAQUE:
                    keys += [np.where(column.valid, column.ranks, 0)[order], column.valid[order]]
            order = order[np.lexsort((*keys, group[order]))]
            groups, first = np.unique(group[order], return_index=True)
        return groups, order[first]


def _aggregate(
    aggregate: Aggregate, columns: dict[str, _Column], group: Words, count: int
) -> tuple[Words, np.ndarray]:
    everywhere = np.ones(count, np.bool_)
    if aggregate.function == "count" and not aggregate.args:
        return np.bincount(group, minlength=count), everywhere
    (column,) = (columns[ref.name] for ref in aggregate.args if isinstance(ref, Ref))
    order = np.flatnonzero(column.valid)
    order = order[np.lexsort((column.ranks[order], group[order]))]
    if aggregate.distinct and len(order):
        same = (column.ranks[order][1:] == column.ranks[order][:-1]) & (
            group[order][1:] == group[order][:-1]
        )
        order = order[np.concatenate([[True], ~same])]
    groups, first, sizes = np.unique(group[order], return_index=True, return_counts=True)
    words, valid = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    if aggregate.function == "count":
        words[groups] = sizes
        return words, everywhere
    valid[groups] = True
    match aggregate.function:
        case "min":
            words[groups] = column.words[order[first]]
        case "max":
            words[groups] = column.words[order[first + sizes - 1]]
        case "sum":
            words[groups], valid[groups] = _sums(column, order, first, aggregate.type)
        case "avg":
            words[groups], valid[groups] = _averages(column, order, first, sizes, aggregate)
    return words, valid


def _sums(
    column: _Column, order: Words, first: Words, type_: pa.DataType
) -> tuple[Words, np.ndarray]:
    """Sums from the smallest value to the largest; integers exactly, NULL if the sum does not fit."""
    words = column.words[order]
    if column.kind is Kind.FLOAT:
        return ordered_sums(words, first).view(np.int64), np.ones(len(first), np.bool_)
    if not len(words):
        return np.zeros(0, np.int64), np.zeros(0, np.bool_)
    # Two exact halves: the sum of the low 32 bits carries into the sum of the high ones.
    low = np.add.reduceat(words & _LOW, first)
    high = np.add.reduceat(words >> np.int64(32), first) + (low >> np.int64(32))
    fits = (high >= -(2**31)) & (high < 2**31)
    total = np.where(fits, (high << np.int64(32)) | (low & _LOW), 0)
    if pa.types.is_decimal(type_):
        fits &= np.abs(total) < 10**type_.precision
    return total, fits


def _averages(
    column: _Column, order: Words, first: Words, sizes: np.ndarray, aggregate: Aggregate
) -> tuple[Words, np.ndarray]:
    if pa.types.is_decimal(aggregate.type):
        return _decimal_averages(column, order, first, sizes, aggregate)
    words = column.words[order]
    if column.kind is not Kind.FLOAT:
        type_ = aggregate.args[0].type
        scale = 10**type_.scale if column.kind is Kind.DECIMAL else 1
        words = (words / scale).view(np.int64)
    sums = ordered_sums(np.ascontiguousarray(words), first)
    return (sums / sizes).view(np.int64), np.ones(len(first), np.bool_)


def _decimal_averages(
    column: _Column, order: Words, first: Words, sizes: np.ndarray, aggregate: Aggregate
) -> tuple[Words, np.ndarray]:
    """Exact, then rounded once; a handful of values an instant, so Python's decimals do."""
    scale = aggregate.args[0].type.scale
    target = aggregate.type.scale
    limit = 10**aggregate.type.precision
    words, fits = np.zeros(len(first), np.int64), np.ones(len(first), np.bool_)
    with localcontext(prec=100, rounding=ROUND_HALF_UP):
        for k, (start, size) in enumerate(zip(first, sizes, strict=True)):
            total = sum(int(w) for w in column.words[order[start : start + size]])
            mean = (Decimal(total).scaleb(target - scale) / int(size)).to_integral_value()
            fits[k] = abs(mean) < limit
            words[k] = int(mean) if fits[k] else 0
    return words, fits
