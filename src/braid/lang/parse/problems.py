"""Errors in a text, located by offsets."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from braid.lang.parse.limits import MAX_PROBLEMS

#: The most names to compare a misspelt name with. A catalog can have a million queries.
_COMPARED = 2_000
#: The longest misspelt name. The comparison takes quadratic time.
_MISSPELT = 100
#: The length at which a message or a hint is cut: names in it may be as long as the text.
_LONGEST = 1_000

#: From which to which character of the text.
At = tuple[int, int]


class Problem(Exception):
    """One error; becomes a `QueryError` when the text and its origin are known.

    `silent` marks a consequence of an error that is reported elsewhere, such as a query that reads
    the stream of a broken query.
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
    """Several errors."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(p.message for p in problems))
        self.problems = tuple(problems)


class Gather:
    """A collector of the errors of independent parts, so that Braid shows all of them."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def __enter__(self) -> Gather:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Problem | Problems):
            return False
        self._found.extend(error.problems if isinstance(error, Problems) else (error,))
        if len(self._found) >= MAX_PROBLEMS:
            raise Problems(self._found[:MAX_PROBLEMS]) from None  # more would only repeat them
        return True

    def check(self) -> None:
        """Raise the collected errors, if there are any."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise Problems(self._found)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def similar(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to a misspelt one."""
    if len(name) > _MISSPELT:
        return None
    choices = list(known)
    folded = {choice.lower(): choice for choice in choices}
    if name.lower() in folded:
        return folded[name.lower()]
    close = difflib.get_close_matches(name, choices[:_COMPARED], n=1, cutoff=0.6)
    return close[0] if close else None


def listing(names: Iterable[str], *, most: int = 20) -> str:
    """Names for a message. A long list is cut, with the number of the names left out."""
    known = list(names)
    if not known:
        return "none"
    more = f", and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def alternatives(what: str, name: str, known: Iterable[str]) -> str:
    """The hint for an unknown name: a similar name and the known names."""
    names = list(known)
    guess = similar(name, names)
    listed = f"{what}: {listing(names)}"
    return f"did you mean {guess}? {listed}" if guess else listed
