"""Probes of a join: by the hash of what must be equal, or of the buckets that a band touches."""

from __future__ import annotations

from typing import Any

import numpy as np

from braid.jit.hash_table import first
from braid.jit.records import Floats, Words
from braid.jit.row_keys import add_to_hash, same_value
from braid.jit.rows import FREE
from braid.jit.runtime import kernel
from braid.operators.core.kernels.node_sets import Cell
from braid.operators.join.kernels.frame import Frame, Level, Step, bind, holds
from braid.operators.join.kernels.store import (
    IN_BAND,
    Index,
    add_bucket,
    bucket_of,
    float_bucket_of,
    within,
)

#: How much floats are rounded, at most.
_ROUNDING = 2.0**-50
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


@kernel()
def _look_up(index: Index, level: Level, value: int) -> None:
    """Begin with the chain of a hash."""
    value &= FREE
    level.hash = value
    level.slot = first(index, value)


@kernel()
def _added(value: int, change: int) -> int:
    """A sum, or the integer that is next to it."""
    if change > 0:
        return value + change if value <= _GREATEST - change else np.int64(_GREATEST)
    return value + change if value >= _LEAST - change else np.int64(_LEAST)


@kernel()
def _begin_band(level: Level, index: Index, at: Words, around: Words, how: int) -> None:
    """The buckets that a band around a value touches. Floats were or will be rounded where the
    residual is asked, so their band is a little wider."""
    if how == IN_BAND:
        value, width = at[0], index.band[0]
        level.bucket = within(bucket_of(_added(value, -around[0]), width), index)
        level.last = within(bucket_of(_added(value, around[1]), width), index)
        return
    sides, wide = Floats(around.address), Floats(index.band.address)[0]
    point, under, over = Floats(at.address)[0], sides[0], sides[1]
    lowest_, highest = point, point
    if abs(point) < np.inf:
        slack = (abs(point) + _finite(under) + _finite(over)) * _ROUNDING
        lowest_, highest = point - under - slack, point + over + slack
    # A side without a bound; NaN is above all others.
    lowest_ = -np.inf if under == np.inf else lowest_
    highest = np.nan if over == np.inf else highest
    level.bucket = within(float_bucket_of(lowest_, wide), index)
    level.last = within(float_bucket_of(highest, wide), index)


@kernel()
def _finite(width: float) -> float:
    return 0.0 if width == np.inf else abs(width)


@kernel()
def next_chain(index: Index, level: Level) -> bool:
    """Go on with the next bucket of a band; whether there is one."""
    bucket = level.bucket + 1
    if bucket > level.last:
        return False
    level.bucket = bucket
    _look_up(index, level, add_bucket(level.base, bucket))
    return True


@kernel()
def begin(frame: Frame, step: Step, level: Level) -> None:
    """Look for the first row of a probe."""
    index = frame.indexes[step.index]
    value = np.int64(0)
    level.cell = Cell(0)
    level.bucket = 0
    level.last = 0
    index.probes += 1
    for k in range(index.keys):
        source, how = step.sources[k], index.columns[k].how
        row, base = frame.bound[source.input].row, frame.stores[source.input].base
        if how >= IN_BAND:
            # It is the last of the keys.
            _begin_band(level, index, row.after(base + source.column), step.band, how)
            level.base = value
            value = add_bucket(value, level.bucket)
        else:
            value = add_to_hash(value, row, base, source.column, how)
    _look_up(index, level, value)


@kernel()
def _same_keys(frame: Frame, step: Step, index: Index, row: Words, base: int) -> bool:
    for k in range(index.keys):
        key, source = index.columns[k], step.sources[k]
        if key.how >= IN_BAND:
            return True
        other, other_base = frame.bound[source.input].row, frame.stores[source.input].base
        if not same_value(row, base, key.column, other, other_base, source.column, key.how):
            return False
    return True


@kernel()
def found(frame: Frame, step: Step, index: Index, row: Words, base: int, early: Any) -> bool:
    """Bind a row whose hash is right, if its keys are; whether the residual holds then."""
    if not _same_keys(frame, step, index, row, base):
        return False
    index.found += 1
    bind(frame, step.input, row)
    return step.flags.address == 0 or holds(frame, step.flags, early)
