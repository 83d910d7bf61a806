"""Attribute selection constructs (ASC): what clauses say of one attribute, worked out beforehand.

The m distinct constants that clauses compare an attribute with cut its domain into 2m + 1
*regions*: the constants themselves and the open stretches before, between and after them; one
more region is for NULL. All keys of a region satisfy the same atoms, so each region has a
*query-result bitmap*: bit c is 0 iff no row with such a key can satisfy clause c. The conjunction
of the bitmaps of a row's regions, one an attribute, is the set of the clauses that hold (the
*global-result bitmap*); a row is dropped as soon as it has no bit left.

Bits are in 64-bit words, bit c in word c // 64; a clause that no construct restricts has no bit
(it would keep every row from being dropped) and is put out with each row instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir

from braid.jit import types
from braid.jit.memory import resized
from braid.jit.records import Record, Words, i64, record
from braid.jit.runtime import COMPILED, address, kernel
from braid.jit.types import intrinsic
from braid.operators.core.kernels.clauses import (
    HIGHEST,
    IN,
    INTERVAL,
    IS_NULL,
    LOWEST,
    NOT_EQUAL,
    NOT_IN,
    NULL_KEY,
)

#: The shift of a table of one place: the distance of two constants might overflow.
ONE_PLACE = np.int64(63)

#: No micro-arrow leaves a region; it has not been decided yet which one does.
NO_ARROW, UNDECIDED = np.int64(-1), np.int64(-2)

#: What the monitor leaves in the global-evaluation bitmap: no number of a row.
PASSED = np.int64(-1)


@record
class Construct(Record):
    """The shape of a construct: where its constants, regions and table are among those of all."""

    #: The key column.
    column: i64
    first: i64
    count: i64
    region: i64
    #: The smallest and the largest constant.
    low: i64
    high: i64
    table: i64
    #: The distance of a key from `low`, shifted by so many bits, is its place in the table.
    shift: i64


@record
class Counters(Record):
    """What `match_rows` counts."""

    evaluated: i64
    macro: i64
    micro: i64
    dropped: i64
    rows: i64


class Constructs(NamedTuple):
    """All constructs of a set of clauses; those of one region or construct are a row."""

    shape: np.ndarray  # [constructs]: records of `Construct`, as words
    constants: np.ndarray
    table: np.ndarray
    results: np.ndarray  # [regions, words]: query-result bitmaps
    usage: np.ndarray  # [constructs, words]: query-usage bitmaps
    candidates: np.ndarray  # [regions, words of constructs]: candidate-arrow bitmaps
    restricted: np.ndarray  # [words]: the clauses that have a bit
    free: np.ndarray  # [words]: those that no construct restricts

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self)


class Plan(NamedTuple):
    """In which order constructs are evaluated: by micro-arrow where a region has one."""

    order: np.ndarray  # the macro-sequence
    arrows: np.ndarray  # [regions]


class Work(NamedTuple):
    """What kernels write to: kept by the caller, since they hold addresses into it."""

    bits: np.ndarray  # [words]: the global-result bitmap
    uncovered: np.ndarray  # [words]
    #: [constructs]: the global-evaluation bitmap, as the number of the row that came by last (of
    #: all rows ever), so that it need not be cleared
    evaluated: np.ndarray
    counters: np.ndarray  # a record of `Counters`, as words
    regions: np.ndarray  # [constructs]: those of a row that is monitored
    trial: np.ndarray  # [words] and [constructs]: the two bitmaps on a way that is tried out
    tried: np.ndarray


def _bit_intrinsic(name: str, has_flag: bool) -> Any:
    """LLVM's instruction of that name on a 64-bit word."""

    @intrinsic
    def operation(_context: Any, _word: Any) -> Any:
        def generate(_ctx: Any, builder: Any, _signature: Any, args: Any) -> Any:
            word, flag = ir.IntType(64), ir.IntType(1)
            kind = ir.FunctionType(word, [word, flag] if has_flag else [word])
            function = builder.module.declare_intrinsic(name, (word,), kind)
            return builder.call(function, [args[0], flag(1)] if has_flag else [args[0]])

        return types.int64(types.int64), generate

    return operation


if COMPILED:
    ones = _bit_intrinsic("llvm.ctpop", False)
    lowest_bit = _bit_intrinsic("llvm.cttz", True)

    @kernel()
    def without_lowest(word: int) -> int:
        return word & (word - np.int64(1))

else:
    _WORD = (1 << 64) - 1

    def ones(word: int) -> int:
        """How many bits are set."""
        return (int(word) & _WORD).bit_count()

    def lowest_bit(word: int) -> int:
        """The number of the lowest bit that is set; there must be one."""
        return (int(word) & -int(word)).bit_length() - 1

    def without_lowest(word: int) -> int:
        """The word without its lowest set bit."""
        rest = int(word) & _WORD
        rest &= rest - 1
        return rest - (_WORD + 1) if rest >> 63 else rest


@kernel()
def lower_bound(constants: Words, count: int, key: int) -> int:
    """How many of the sorted words at `constants` are smaller than the key; without branches."""
    base, left = np.int64(0), count
    while left > 1:
        half = left >> 1
        base += half * np.int64(constants[base + half - 1] < key)
        left -= half
    if count > 0:
        base += np.int64(constants[base] < key)
    return base


@kernel()
def local_region(constants: Words, count: int, key: int) -> int:
    """Even numbers are open stretches, odd ones constants, the last one is NULL's."""
    if key == NULL_KEY:
        return 2 * count + 1
    at = lower_bound(constants, count, key)
    if at < count and constants[at] == key:
        return 2 * at + 1
    return 2 * at


@kernel()
def region_of(shape: Construct, constants: Words, table: Words, key: int) -> int:
    """The region of a key.

    The table says between which constants to search. It has more places than there are constants,
    so the search is short unless constants are very unevenly spread.
    """
    first, count, low = shape.region, shape.count, shape.low
    if key < low:
        return first if key != NULL_KEY else first + 2 * count + 1
    if key > shape.high:
        return first + 2 * count
    place, shift = shape.table, shape.shift
    if shift < ONE_PLACE:
        place += (key - low) >> shift
    start, stop = table[place], table[place + 1]
    own = constants.after(shape.first)
    start += lower_bound(own.after(start), stop - start, key)
    # There is a constant that is not smaller, since the key is not above all of them.
    return first + 2 * start + np.int64(own[start] == key)


@kernel()
def meet(bits: Words, left: Words, right: Words, words: int) -> int:
    """bits = left & right; all ones together, 0 if there is none."""
    alive = np.int64(0)
    for word in range(words):
        value = left[word] & right[word]
        bits[word] = value
        alive |= value
    return alive


@kernel()
def match_rows(asc: Constructs, plan: Plan, work: Work, keys: np.ndarray, row_0: int) -> Any:
    """The true pairs, each a word (row << 32 | clause): the address of memory and their number.

    The caller frees the memory. Rows are numbered from `row_0`.
    """
    shapes, constants = Construct(address(asc.shape)), Words(address(asc.constants))
    table, results = Words(address(asc.table)), Words(address(asc.results))
    free, bits = Words(address(asc.free)), Words(address(work.bits))
    order, arrows = Words(address(plan.order)), Words(address(plan.arrows))
    stamps, counters = Words(address(work.evaluated)), Counters(address(work.counters))
    keys_at, columns = Words(address(keys)), keys.shape[1]
    words, constructs = asc.restricted.shape[0], asc.shape.shape[0]
    some_free = asc.free.any()
    evaluated = macro = micro = dropped = np.int64(0)
    rows_before = counters.rows
    found, capacity = np.int64(0), np.int64(64 * words + keys.shape[0])
    out = Words(resized(0, capacity))
    for row in range(keys.shape[0]):
        stamp = np.int64(rows_before + row + 1)
        alive, place, steps = np.int64(0), np.int64(0), np.int64(0)
        current = order[0] if constructs > 0 else np.int64(0)
        while steps < constructs:
            shape = shapes[current]
            key = keys_at[row * columns + shape.column]
            region = region_of(shape, constants, table, key)
            result = results.after(words * region)
            alive = meet(bits, result if steps == 0 else bits, result, words)
            steps += 1
            if alive == 0 or steps == constructs:
                break
            stamps[current] = stamp
            arrow = arrows[region]
            if arrow >= 0 and stamps[arrow] != stamp:
                current = arrow
                micro += 1
            else:
                while stamps[order[place]] == stamp:
                    place += 1
                current = order[place]
                macro += 1
        evaluated += steps
        if alive == 0:
            dropped += 1
            if not some_free:
                continue
        if found + 64 * words > capacity:
            capacity = 2 * capacity + 64 * words
            out = Words(resized(out, capacity))
        for word in range(words):
            left = free[word] | (bits[word] if alive != 0 else np.int64(0))
            while left != 0:
                clause = 64 * word + lowest_bit(left)
                out[found] = ((row_0 + row) << 32) | clause
                found += 1
                left = without_lowest(left)
    counters.evaluated += evaluated
    counters.macro += macro
    counters.micro += micro
    counters.dropped += dropped
    counters.rows += keys.shape[0]
    return out.address, found


@kernel()
def measure_next(
    asc: Constructs,
    work: Work,
    keys: np.ndarray,
    sequence: np.ndarray,
    rest: np.ndarray,
    passed: np.ndarray,
    dropped: np.ndarray,
) -> None:
    """What each construct of `rest` would do right after the sequence.

    Adds up, for each, the clauses of `work.uncovered` that rows still satisfy, and the rows that
    satisfy no clause.
    """
    shapes, constants = Construct(address(asc.shape)), Words(address(asc.constants))
    table, results = Words(address(asc.table)), Words(address(asc.results))
    bits, words = Words(address(work.bits)), asc.restricted.shape[0]
    uncovered, restricted = Words(address(work.uncovered)), Words(address(asc.restricted))
    for row in range(keys.shape[0]):
        alive = meet(bits, restricted, restricted, words)
        for place in range(sequence.shape[0]):
            shape = shapes[sequence[place]]
            region = region_of(shape, constants, table, keys[row, shape.column])
            alive = meet(bits, bits, results.after(words * region), words)
            if alive == 0:
                break
        for place in range(rest.shape[0]):
            if alive == 0:
                dropped[place] += 1
                continue
            shape = shapes[rest[place]]
            region = region_of(shape, constants, table, keys[row, shape.column])
            left, count = tally(bits, results.after(words * region), uncovered, words)
            passed[place] += count
            if left == 0:
                dropped[place] += 1


@kernel()
def tally(bits: Words, result: Words, counted: Words, words: int) -> Any:
    """All ones of bits & result together, and how many of them are in `counted`."""
    left = count = np.int64(0)
    for word in range(words):
        value = bits[word] & result[word]
        left |= value
        count += ones(value & counted[word])
    return left, count


class Tallies(NamedTuple):
    """What is known of the regions to which rows have come, for choosing their micro-arrows.

    Columns of the last three are constructs; the last column is the one that the macro-sequence
    would go to.
    """

    visits: np.ndarray  # [regions]
    before_cover: np.ndarray  # [regions]: visits with a clause that no construct had restricted
    alive: np.ndarray  # [regions]: clauses not yet failed, added over the visits
    passed: np.ndarray  # [regions, constructs + 1]: those not failed by the construct either
    dropped: np.ndarray  # [regions, constructs + 1]: rows dropped by it
    further: np.ndarray  # [regions, constructs + 1]: constructs evaluated from there on


@kernel()
def measure_arrows(
    asc: Constructs, work: Work, keys: np.ndarray, plan: Plan, tallies: Tallies
) -> int:
    """Follow rows to the first region with an undecided arrow and measure there where to go.

    Returns how many rows came to one. A construct that a row has passed already counts as what
    the macro-sequence would do, since an arrow to it is not followed.
    """
    results, usage = Words(address(asc.results)), Words(address(asc.usage))
    bits, uncovered = Words(address(work.bits)), Words(address(work.uncovered))
    words, constructs = asc.restricted.shape[0], asc.shape.shape[0]
    restricted, order = Words(address(asc.restricted)), plan.order
    measured = np.int64(0)
    for row in range(keys.shape[0]):
        find_regions(asc, keys[row], work.regions)
        meet(bits, restricted, restricted, words)
        meet(uncovered, restricted, restricted, words)
        work.evaluated[:] = 0
        current, place = order[0], np.int64(0)
        for steps in range(1, constructs - 1):  # with one construct left there is no choice
            region = work.regions[current]
            if meet(bits, bits, results.after(words * region), words) == 0:
                break
            work.evaluated[current] = PASSED
            remove(uncovered, usage.after(words * current), words)
            while work.evaluated[order[place]] == PASSED:
                place += 1
            arrow = plan.arrows[region]
            if arrow == UNDECIDED:
                measure_region(asc, work, plan, tallies, region, order[place], steps)
                measured += 1
                break
            current = arrow if arrow >= 0 and work.evaluated[arrow] != PASSED else order[place]
    return measured


@kernel()
def find_regions(asc: Constructs, keys: np.ndarray, regions: np.ndarray) -> None:
    """The regions of one row."""
    shapes, constants = Construct(address(asc.shape)), Words(address(asc.constants))
    table = Words(address(asc.table))
    for construct in range(regions.shape[0]):
        shape = shapes[construct]
        regions[construct] = region_of(shape, constants, table, keys[shape.column])


@kernel()
def remove(bits: Words, removed: Words, words: int) -> None:
    for word in range(words):
        bits[word] &= ~removed[word]


@kernel()
def measure_region(
    asc: Constructs,
    work: Work,
    plan: Plan,
    tallies: Tallies,
    region: int,
    fallback: int,
    steps: int,
) -> None:
    """What each construct would do to a row that is in this region after so many steps."""
    results, bits = Words(address(asc.results)), Words(address(work.bits))
    words, constructs = asc.restricted.shape[0], asc.shape.shape[0]
    open_clauses, _ = tally(bits, Words(address(work.uncovered)), bits, words)
    _, alive = tally(bits, bits, bits, words)
    tallies.visits[region] += 1
    tallies.alive[region] += alive
    if open_clauses != 0:
        tallies.before_cover[region] += 1
    here = np.int64(region)
    saved = lost = cost = np.int64(0)
    for turn in range(constructs + 1):
        # The fallback first: what the others do where they cannot be gone to.
        target = fallback if turn == 0 else turn - 1
        place = constructs if turn == 0 else turn - 1
        candidate = (asc.candidates[here, target >> 6] >> (target & 63)) & 1
        if turn > 0 and (work.evaluated[target] == PASSED or candidate == 0):
            tallies.passed[here, place] += saved
            tallies.dropped[here, place] += lost
            tallies.further[here, place] += cost
            continue
        left, passed = tally(bits, results.after(words * work.regions[target]), bits, words)
        gone = np.int64(1) if left == 0 else np.int64(0)
        further = try_out(asc, work, plan, np.int64(target), np.int64(steps))
        tallies.passed[here, place] += passed
        tallies.dropped[here, place] += gone
        tallies.further[here, place] += further
        if turn == 0:
            saved, lost, cost = passed, gone, further


@kernel()
def try_out(asc: Constructs, work: Work, plan: Plan, current: int, steps: int) -> int:
    """How many more constructs a row is evaluated on if it goes to this one next."""
    results, trial = Words(address(asc.results)), Words(address(work.trial))
    words, bits = asc.restricted.shape[0], Words(address(work.bits))
    constructs, start = asc.shape.shape[0], steps
    meet(trial, bits, bits, words)
    work.tried[:] = work.evaluated
    place = np.int64(0)
    while True:
        region = work.regions[current]
        alive = meet(trial, trial, results.after(words * region), words)
        steps += 1
        if alive == 0 or steps == constructs:
            return steps - start
        work.tried[current] = PASSED
        arrow = plan.arrows[region]
        if arrow < 0 or work.tried[arrow] == PASSED:
            while work.tried[plan.order[place]] == PASSED:
                place += 1
            arrow = plan.order[place]
        current = arrow


# --- Building -------------------------------------------------------------------------------


@kernel()
def add_range(ranges: np.ndarray, used: int, first: int, last: int, clause: int) -> int:
    if first <= last:
        ranges[used, 0] = first
        ranges[used, 1] = last
        ranges[used, 2] = clause
        return used + 1
    return used


@kernel()
def failing_regions(
    atoms: np.ndarray, sets: np.ndarray, constants: np.ndarray, ranges: np.ndarray
) -> int:
    """The regions in which atoms (clause, kind, lo, hi) of one attribute fail.

    Written to `ranges` as (first region, last region, clause); returns how many there are.
    """
    at, count = Words(address(constants)), np.int64(constants.shape[0])
    null, used = 2 * count + 1, np.int64(0)
    for atom in range(atoms.shape[0]):
        clause, kind, lo, hi = atoms[atom, 0], atoms[atom, 1], atoms[atom, 2], atoms[atom, 3]
        if kind == INTERVAL:
            if lo > hi or hi == NULL_KEY:
                used = add_range(ranges, used, 0, null, clause)
                continue
            first = np.int64(0) if lo <= LOWEST else local_region(at, count, lo)
            last = 2 * count if hi == HIGHEST else local_region(at, count, hi)
            used = add_range(ranges, used, 0, first - 1, clause)
            used = add_range(ranges, used, last + 1, null, clause)
        elif kind == NOT_EQUAL:
            region = local_region(at, count, lo)
            used = add_range(ranges, used, region, region, clause)
            if region != null:
                used = add_range(ranges, used, null, null, clause)
        elif kind == IN:
            after = np.int64(0)
            for member in range(lo, hi):
                if sets[member] != NULL_KEY:
                    region = local_region(at, count, sets[member])
                    used = add_range(ranges, used, after, region - 1, clause)
                    after = region + 1
            used = add_range(ranges, used, after, null, clause)
        elif kind == NOT_IN:
            for member in range(lo, hi):
                if sets[member] != NULL_KEY:
                    region = local_region(at, count, sets[member])
                    used = add_range(ranges, used, region, region, clause)
            used = add_range(ranges, used, null, null, clause)
        elif kind == IS_NULL:
            used = add_range(ranges, used, 0, null - 1, clause)
        else:
            used = add_range(ranges, used, null, null, clause)
    return used


@kernel()
def sweep_regions(
    opening: np.ndarray,
    closing: np.ndarray,
    failing: np.ndarray,
    bits: np.ndarray,
    results: np.ndarray,
) -> None:
    """The query-result bitmaps of one attribute, from the regions in which its atoms fail.

    `opening` and `closing` are (region, clause), sorted: an atom of the clause fails from this
    region on, or up to it. `failing` counts the failing atoms of each clause: several atoms of a
    clause may be on one attribute.
    """
    opened = closed = 0
    one = np.int64(1)
    for region in range(results.shape[0]):
        while closed < closing.shape[0] and closing[closed, 0] < region:
            clause = closing[closed, 1]
            failing[clause] -= 1
            if failing[clause] == 0:
                bits[clause >> 6] |= one << (clause & 63)
            closed += 1
        while opened < opening.shape[0] and opening[opened, 0] == region:
            clause = opening[opened, 1]
            failing[clause] += 1
            bits[clause >> 6] &= ~(one << (clause & 63))
            opened += 1
        for word in range(results.shape[1]):
            results[region, word] = bits[word]


@kernel()
def set_bits(bits: np.ndarray, clauses: np.ndarray) -> None:
    for place in range(clauses.shape[0]):
        clause = clauses[place]
        bits[clause >> 6] |= np.int64(1) << (clause & 63)


@kernel()
def find_candidates(asc: Constructs) -> None:
    """Candidate-arrow bitmaps: the constructs that can fail a clause that a region leaves."""
    constructs, words = asc.usage.shape
    results, usage = Words(address(asc.results)), Words(address(asc.usage))
    for construct in range(constructs):
        shape = Construct(address(asc.shape))[construct]
        for region in range(shape.region, shape.region + 2 * shape.count + 2):
            for other in range(constructs):
                if other != construct and meets(
                    results.after(words * region), usage.after(words * other), words
                ):
                    asc.candidates[region, other >> 6] |= np.int64(1) << np.int64(other & 63)


@kernel()
def meets(left: Words, right: Words, words: int) -> bool:
    for word in range(words):
        if left[word] & right[word] != 0:
            return True
    return False


@kernel()
def fill_table(constants: np.ndarray, low: int, shift: int, table: np.ndarray) -> None:
    """How many constants are below the keys of each place."""
    at, count = Words(address(constants)), np.int64(constants.shape[0])
    for place in range(table.shape[0] - 1):
        table[place] = lower_bound(at, count, low + (np.int64(place) << shift))
    table[table.shape[0] - 1] = count
