"""How large a text may be. Each limit is far above what anybody writes, by hand or by program.

They keep every way through the language linear in the size of a text and bounded in memory, also
the ways to its errors: a service that registers the queries of others meets any text.
docs/language.md lists them for users.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

#: Of one statement; a file may have any number of statements.
MAX_CHARACTERS = 1_000_000
#: Words, numbers, strings and symbols of one statement.
MAX_TOKENS = 100_000
#: How deep a statement may be nested: everything that walks a query does so by recursion.
MAX_DEPTH = 100
#: What the parser holds at once. A level of nesting takes fewer than ten of these.
MAX_HELD = 10 * MAX_DEPTH
#: Digits of a number, with its point and exponent. The largest DOUBLE has 309 of them.
MAX_DIGITS = 400
#: Of one FROM, or of one expression of blocks.
MAX_INPUTS = 100
#: A longer statement is parsed each time: its outline is not worth remembering.
MAX_OUTLINE = 20_000
#: Rows or time of a window: what is added to a time, or to a number of rows, has 64 bits.
MAX_WINDOW = 2**62
#: After so many errors of a statement, and of a file, the rest is not looked at.
MAX_PROBLEMS, MAX_ERRORS = 100, 1_000
#: A message quotes no more of a text than this.
MAX_QUOTED = 60

_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)


def whole_number(text: str) -> int | None:
    """The whole number that a text is; None if it is none, or has too many digits for any use.

    Python's own `int` takes other characters too, and refuses more than 4,300 digits.
    """
    text = text.strip()
    if len(text) > MAX_DIGITS or not _WHOLE.fullmatch(text):
        return None
    return int(text)


def exact_number(text: str) -> Decimal | None:
    """The number that a text is, exactly; None if its digits or its exponent have no use."""
    try:
        found = Decimal(text) if len(text) <= MAX_DIGITS else None
    except InvalidOperation:  # an exponent of twenty digits
        return None
    return found if found is not None and abs(found.adjusted()) <= MAX_DIGITS else None


def quoted(text: str) -> str:
    """A text as a message shows it: a long one is cut."""
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 1]}…"
