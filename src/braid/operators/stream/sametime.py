"""SAMETIME: the events of one instant become one point event with their aggregates.

A batch holds whole epochs, so this needs no state. Values are ranked once per column (numbers
by themselves, strings by their bytes, NaN above all), and then every aggregate works on the
rows sorted by epoch and rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braid.algebra.expressions import Ref
from braid.algebra.nodes import Aggregate
from braid.algebra.types import Kind, kind_of
from braid.operators.core.base import OneForAll, Stateless
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows, nulls_of, set_nulls, sorted_by_end
from braid.operators.core.kernels.rows import ordered_sums
from braid.operators.core.values import Values, Words
from braid.operators.stream.spec import SameTimeSpec
from braid.plan.layout import END, START

_LOW = np.int64(0xFFFFFFFF)


@dataclass(frozen=True)
class _Column:
    """A column of the batch: words, which are not NULL, and the order of the values."""

    words: Words
    valid: np.ndarray
    ranks: Words
    kind: Kind


class SameTimeLogic(OneForAll, Stateless):
    def __init__(self, spec: SameTimeSpec, values: Values) -> None:
        self._spec = spec
        self._values = values

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        (batch,) = inputs
        rows = sorted_by_end(batch.alone())
        if self._spec.birth is not None:
            rows = rows[rows[:, START] >= self._spec.birth]
        return Batch(self._aggregated(rows))

    def _aggregated(self, rows: Rows) -> Rows:
        layout = self._spec.output.layout
        ends = rows[:, END]
        if not len(rows):
            return np.zeros((0, layout.width), np.int64)
        starts = np.flatnonzero(np.concatenate([[True], ends[1:] != ends[:-1]]))
        out = np.zeros((len(starts), layout.width), np.int64)
        out[:, START] = out[:, END] = ends[starts]
        epoch = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
        columns = {name: self._column(rows, name) for name in self._names()}
        for target, aggregate in enumerate(self._spec.aggregates):
            words, valid = self._aggregate(aggregate, columns, epoch, len(starts))
            out[:, layout.base + target] = words
            if not valid.all():
                set_nulls(out, target, ~valid)
        return out

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

    def _aggregate(
        self, aggregate: Aggregate, columns: dict[str, _Column], epoch: Words, count: int
    ) -> tuple[Words, np.ndarray]:
        everywhere = np.ones(count, np.bool_)
        if aggregate.function == "count" and not aggregate.args:
            return np.bincount(epoch, minlength=count), everywhere
        args = [columns[ref.name] for ref in aggregate.args if isinstance(ref, Ref)]
        if aggregate.function in ("max_by", "min_by"):
            return self._extreme_by(aggregate, args, columns, epoch, count)
        column = args[0]
        order = np.flatnonzero(column.valid)
        order = order[np.lexsort((column.ranks[order], epoch[order]))]
        if aggregate.distinct and len(order):
            same = (column.ranks[order][1:] == column.ranks[order][:-1]) & (
                epoch[order][1:] == epoch[order][:-1]
            )
            order = order[np.concatenate([[True], ~same])]
        groups, first, sizes = np.unique(epoch[order], return_index=True, return_counts=True)
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

    def _extreme_by(
        self,
        aggregate: Aggregate,
        args: list[_Column],
        columns: dict[str, _Column],
        epoch: Words,
        count: int,
    ) -> tuple[Words, np.ndarray]:
        """The value at the extreme; ties go to the event with the smallest attributes, NULL first."""
        value, by = args
        order = np.flatnonzero(by.valid)
        keys: list[np.ndarray] = []
        for name in reversed(self._spec.order):
            column = columns[name]
            if column.kind is not Kind.OPAQUE:
                keys += [np.where(column.valid, column.ranks, 0)[order], column.valid[order]]
        # Complement instead of negation: it reverses the order of every integer without overflow.
        keys += [
            ~by.ranks[order] if aggregate.function == "max_by" else by.ranks[order],
            epoch[order],
        ]
        order = order[np.lexsort(keys)]
        groups, first = np.unique(epoch[order], return_index=True)
        chosen = order[first]
        words, valid = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        words[groups] = value.words[chosen]
        valid[groups] = value.valid[chosen]
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
