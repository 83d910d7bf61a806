"""The limits on the size of a text, far above the size of real queries.

A service that registers the queries of others meets any text. The limits keep the time for each
text linear in its size and the memory bounded, also on the way to an error. docs/language.md lists
them for users.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

#: The most characters of one statement; a file may have any number of statements.
MAX_CHARACTERS = 1_000_000
#: The most words, numbers, strings and symbols of one statement.
MAX_TOKENS = 100_000
#: The deepest nesting of a statement. The functions that walk a query are recursive.
MAX_DEPTH = 100
#: The most symbols on the parser's stack. A level of nesting takes fewer than ten.
MAX_HELD = 10 * MAX_DEPTH
#: The most digits of a number, with its point and exponent. The largest DOUBLE has 309.
MAX_DIGITS = 400
#: The most inputs of one FROM, or of one expression of blocks.
MAX_INPUTS = 100
#: The longest statement with a cached outline. Braid parses a longer one each time.
MAX_OUTLINE = 20_000
#: The longest window, in rows or time. Sums with a time or a number of rows must fit 64 bits.
MAX_WINDOW = 2**62
#: The most errors of a statement, and of a file, that Braid looks for.
MAX_PROBLEMS, MAX_ERRORS = 100, 1_000
#: The longest quotation from a text in a message.
MAX_QUOTED = 60

_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)


def whole_number(text: str) -> int | None:
    """The whole number that a text contains, or None if it contains none or one with too many
    digits.

    Python's `int` accepts more characters, and refuses more than 4,300 digits.
    """
    text = text.strip()
    if len(text) > MAX_DIGITS or not _WHOLE.fullmatch(text):
        return None
    return int(text)


def exact_number(text: str) -> Decimal | None:
    """The exact number that a text contains, or None if it has too many digits."""
    try:
        found = Decimal(text) if len(text) <= MAX_DIGITS else None
    except InvalidOperation:  # an exponent of twenty digits
        return None
    return found if found is not None and abs(found.adjusted()) <= MAX_DIGITS else None


def quoted(text: str) -> str:
    """A text as a message shows it, cut if it is long."""
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 1]}…"
