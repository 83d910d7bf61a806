"""What is wrong with a text, while it is still a matter of offsets in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from braid.lang.parse.limits import MAX_PROBLEMS

#: With how many names a misspelt one is compared: of a million queries, not all.
_COMPARED = 2_000
#: A longer name is no misspelling; comparing takes the square of its length.
_MISSPELT = 100
#: A message or a hint is cut here: names in it may be as long as the text.
_LONGEST = 1_000

#: From which to which character of the text.
At = tuple[int, int]


class Problem(Exception):
    """One thing wrong; becomes a `QueryError` once the text and its origin are known.

    `silent` marks a consequence of an error that is reported elsewhere: a query that reads
    what a broken query would publish is not itself wrong.
    """

    def __init__(
        self, code: str, message: str, at: At, hint: str | None = None, *, silent: bool = False
    ) -> None:
        message = _cut(message)
        super().__init__(message)
        self.code = code
        self.message = message
        self.at = at
        self.hint = None if hint is None else _cut(hint)
        self.silent = silent


class Problems(Exception):
    """Several at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(p.message for p in problems))
        self.problems = tuple(problems)


class Gather:
    """Collects the problems of parts that are independent, so that all are shown at once."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def __enter__(self) -> Gather:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Problem | Problems):
            return False
        self._found.extend(error.problems if isinstance(error, Problems) else (error,))
        if len(self._found) >= MAX_PROBLEMS:
            raise Problems(self._found[:MAX_PROBLEMS]) from None  # nobody reads more of them
        return True

    def check(self) -> None:
        """Raise what was found, if anything was."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise Problems(self._found)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def similar(name: str, known: Iterable[str]) -> str | None:
    """The one known name that was probably meant."""
    if len(name) > _MISSPELT:
        return None
    choices = list(known)
    folded = {choice.lower(): choice for choice in choices}
    if name.lower() in folded:
        return folded[name.lower()]
    close = difflib.get_close_matches(name, choices[:_COMPARED], n=1, cutoff=0.6)
    return close[0] if close else None


def listing(names: Iterable[str], *, most: int = 20) -> str:
    """Names for a message; a long list is cut and says how much is left out."""
    known = list(names)
    if not known:
        return "none"
    more = f", and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def alternatives(what: str, name: str, known: Iterable[str]) -> str:
    """The hint of an unknown name: did you mean, and what there is."""
    names = list(known)
    guess = similar(name, names)
    listed = f"{what}: {listing(names)}"
    return f"did you mean {guess}? {listed}" if guess else listed
