"""Exact sums, independent of the order in which values come and go.

A sum of integers has 128 bits. A sum of floats is an integer as well, in units of 2^-1074, the
smallest float. It has a window of SMALL words, which is enough while the magnitudes of the values
are within some 60 bits of each other, or all words. A value that is added and subtracted again
leaves nothing behind, and the sum is rounded once, when it is read.
"""

from __future__ import annotations

import math

import numpy as np

from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.operators.group.kernels.layout import (
    NONE,
    SMALL,
    WIDE,
    WIDE_WORDS,
    FloatSum,
    GroupTable,
    IntegerSum,
    free_block,
    resize_block,
)

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_FRACTION = np.int64(0x000FFFFFFFFFFFFF)
_INFINITY = np.int64(0x7FF0000000000000)
_NAN = np.int64(0x7FF8000000000000)
_SIGN = np.int64(-9223372036854775808)
#: The top word of a window stays within twice this either way, so that it cannot overflow.
_ROOM = np.int64(1) << np.int64(61)
#: One more than the largest decimal of 18 digits.
DECIMAL_LIMIT = np.int64(1_000_000_000_000_000_000)


@kernel()
def _bits(value: int) -> int:
    """A signed word as an unsigned one."""
    return np.uint64(np.int64(value))


@kernel()
def _size(value: int) -> int:
    """The absolute value, unsigned."""
    return _bits(value) if value >= 0 else ~_bits(value) + _ONE


@kernel()
def _product(a: int, b: int) -> tuple[int, int]:
    """The high and the low word of the product of two unsigned words."""
    a_low, a_high = a & _LOW, a >> _HALF
    b_low, b_high = b & _LOW, b >> _HALF
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    high = a_high * b_high + (middle >> _HALF) + (other >> _HALF)
    return high, (other << _HALF) | (low & _LOW)


# ---- integers ----


@kernel()
def add_integer(state: IntegerSum, value: int, weight: int) -> None:
    """Add a value `weight` times."""
    state.count += weight
    low, high = _bits(state.low), np.int64(state.high)
    more_high, more = _ZERO, _size(value)
    if weight not in (1, -1):
        more_high, more = _product(more, _size(weight))
    if (value < 0) != (weight < 0):
        state.low = np.int64(low - more)
        state.high = high - np.int64(more_high) - np.int64(low < more)
    else:
        total = low + more
        state.low = np.int64(total)
        state.high = high + np.int64(more_high) + np.int64(total < low)


@kernel()
def integer_fits(state: IntegerSum) -> bool:
    """Whether the sum is a BIGINT."""
    return state.high == (np.int64(state.low) >> np.int64(63))


@kernel()
def decimal_fits(state: IntegerSum) -> bool:
    """Whether the sum has no more than 18 digits."""
    if not integer_fits(state):
        return False
    return -DECIMAL_LIMIT < state.low < DECIMAL_LIMIT


@kernel()
def decimal_as_float(value: int, unit: int) -> float:
    """The float nearest to value / unit; both have at most 60 bits."""
    rest = abs(np.int64(value))
    if rest <= np.int64(1) << np.int64(53):
        return np.float64(value) / np.float64(unit)  # both are exact, and so rounded once
    quotient, rest = rest // unit, rest % unit
    shift = 0
    while quotient < np.int64(1) << np.int64(54):
        quotient, rest = 2 * quotient, 2 * rest
        if rest >= unit:
            quotient, rest = quotient + 1, rest - unit
        shift += 1
    if rest != 0:
        quotient |= 1  # far below the bit that decides how to round
    found = math.ldexp(np.float64(quotient), -shift)
    return found if value >= 0 else -found


# ---- floats ----


@kernel()
def add_real(state: FloatSum, word: int, weight: int, table: GroupTable) -> None:
    """Add a float, given by its bits, `weight` times."""
    state.count += weight
    exponent = (word >> np.int64(52)) & np.int64(0x7FF)
    fraction = word & _FRACTION
    if exponent == 0x7FF:
        if fraction != 0:
            state.nans += weight
        elif word >= 0:
            state.plus_infinite += weight
        else:
            state.minus_infinite += weight
        return
    if exponent != 0:
        fraction |= _FRACTION + np.int64(1)
        exponent -= 1
    elif fraction == 0:
        return
    high, low = _ZERO, _bits(fraction)
    if weight not in (1, -1):
        high, low = _product(low, _size(weight))
    place, shift = exponent >> 6, np.uint64(exponent & 63)
    # Shifted twice, because a shift by all 64 bits means nothing.
    back = np.uint64(63) - shift
    first = low << shift
    second = (high << shift) | ((low >> back) >> _ONE)
    third = (high >> back) >> _ONE
    _add(state, place, first, second, third, (word < 0) != (weight < 0), table)


@kernel()
def _add(
    state: FloatSum,
    place: int,
    first: int,
    second: int,
    third: int,
    negative: bool,
    table: GroupTable,
) -> None:
    """Add or subtract three words at a place of the sum."""
    base = state.base
    if base != WIDE and not _fits(state, place - base, first, second, third):
        if base == NONE or _is_zero(state.words, SMALL):
            base = max(place - 1, 0)
            state.base = base
        if not _fits(state, place - base, first, second, third):
            _widen(state, base, table)
            base = np.int64(WIDE)
    if base == WIDE:
        _carry(Words(state.words[0]), WIDE_WORDS, place, first, second, third, negative)
    else:
        _carry(state.words, SMALL, place - base, first, second, third, negative)


@kernel()
def _fits(state: FloatSum, place: int, first: int, second: int, third: int) -> bool:
    """Whether a window can take this without running over."""
    if place < 0 or state.base < 0:
        return False
    last, word = place, first
    if third != 0:
        last, word = place + 2, third
    elif second != 0:
        last, word = place + 1, second
    if last > SMALL - 1 or not -_ROOM <= state.words[SMALL - 1] < _ROOM:
        return False
    return last < SMALL - 1 or word < np.uint64(_ROOM)


@kernel()
def _is_zero(words: Words, size: int) -> bool:
    for k in range(size):
        if words[k] != 0:
            return False
    return True


@kernel()
def _widen(state: FloatSum, base: int, table: GroupTable) -> None:
    wide, words = Words(resize_block(0, 0, WIDE_WORDS, table)), state.words
    sign = np.int64(-1) if words[SMALL - 1] < 0 else np.int64(0)
    for k in range(WIDE_WORDS):
        wide[k] = np.int64(0) if k < base + SMALL else sign
    for k in range(SMALL):
        wide[base + k] = words[k]
        words[k] = 0
    words[0] = wide.address
    state.base = WIDE


@kernel()
def _carry(
    words: Words, size: int, place: int, first: int, second: int, third: int, negative: bool
) -> None:
    carried = _ZERO
    for k in range(place, size):
        word = first
        if k == place + 1:
            word = second
        elif k == place + 2:
            word = third
        elif k > place:
            word = _ZERO
            if carried == _ZERO:
                return
        old = _bits(words[k])
        if negative:
            once = old - word
            new = once - carried
            carried = _ONE if old < word or once < carried else _ZERO
        else:
            once = old + word
            new = once + carried
            carried = _ONE if once < word or new < carried else _ZERO
        words[k] = np.int64(new)


@kernel()
def _length(word: int) -> int:
    """How many bits an unsigned word has up to its highest one."""
    length = np.int64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(step) != _ZERO:
            word = word >> np.uint64(step)
            length += step
    return length + np.int64(1)


@kernel()
def _magnitude(words: Words, k: int, lowest: int, negative: bool) -> int:
    """A word of the absolute value of a sum; `lowest` is its lowest word that is not 0."""
    word = _bits(words[k])
    if not negative or k < lowest:
        return word
    return ~word + _ONE if k == lowest else ~word


@kernel()
def rounded(state: FloatSum) -> int:
    """The bits of the float nearest to a sum."""
    if state.nans > 0 or (state.plus_infinite > 0 and state.minus_infinite > 0):
        return _NAN
    if state.plus_infinite > 0:
        return _INFINITY
    if state.minus_infinite > 0:
        return _INFINITY | _SIGN
    base, words, size = state.base, state.words, SMALL
    if base == NONE:
        return np.int64(0)
    if base == WIDE:
        base, words, size = np.int64(0), Words(words[0]), WIDE_WORDS
    lowest = 0
    while lowest < size and words[lowest] == 0:
        lowest += 1
    if lowest == size:
        return np.int64(0)
    negative = words[size - 1] < 0
    top = size - 1
    while _magnitude(words, top, lowest, negative) == _ZERO:
        top -= 1
    found = _nearest(words, base, top, lowest, negative)
    return found | _SIGN if negative else found


@kernel()
def _nearest(words: Words, base: int, top: int, lowest: int, negative: bool) -> int:
    """Round what begins with the word `top` to the nearest float, of two to the even one."""
    high = _magnitude(words, top, lowest, negative)
    length = _length(high)
    last = (base + top) * 64 + length - 1
    if last < 52:
        return np.int64(high)  # a float without leading one: as it is
    low = _magnitude(words, top - 1, lowest, negative) if top > 0 else _ZERO
    shift = np.uint64(64 - length)
    back = np.uint64(length - 1)
    bits = (high << shift) | ((low >> back) >> _ONE)
    exact = low << shift == _ZERO and lowest >= top - 1 and bits & np.uint64(0x3FF) == _ZERO
    found = np.int64(bits >> np.uint64(11))
    if (bits >> np.uint64(10)) & _ONE != _ZERO and (not exact or found & 1 != 0):
        found += 1
    exponent = np.int64(last - 52)
    if exponent > 2046:
        return _INFINITY
    return min((exponent << np.int64(52)) + found, _INFINITY)


@kernel()
def is_fresh_real(state: FloatSum, table: GroupTable) -> bool:
    """Whether nothing is left of a sum; it then takes no memory elsewhere."""
    if state.count != 0 or state.nans != 0:
        return False
    if state.plus_infinite != 0 or state.minus_infinite != 0:
        return False
    if state.base != WIDE:
        return _is_zero(state.words, SMALL)
    wide = Words(state.words[0])
    if not _is_zero(wide, WIDE_WORDS):
        return False
    free_block(wide, WIDE_WORDS, table)
    state.words[0], state.base = 0, NONE
    return True
