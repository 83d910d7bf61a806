"""Exceptions with stable codes, for everything that users can cause.

A query text, an event, a configuration or a disk can cause a `BraidError`. Assertions are for
mistakes in Braid. The codes are part of the public interface: docs/errors.md lists all of them, and
a test checks the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

#: The longest part of a line that an error shows, and its length before the caret.
_SHOWN, _BEFORE = 160, 60


class BraidError(Exception):
    """An error with a stable code and an optional hint about the remedy."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(self.render())

    def render(self) -> str:
        text = f"error[{self.code}]: {self.message}"
        return f"{text}\n  {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.code, self.message, self.hint))


@dataclass(frozen=True)
class Span:
    """A place in a source text: 1-based line and column, length in characters."""

    line: int
    column: int
    length: int = 1


@dataclass(frozen=True)
class Origin:
    """The origin of a query text, so that an error can point into the user's own file.

    `line` and `column` are the position in the file `name` where the text starts.
    """

    name: str | None = None
    query: str | None = None
    line: int = 1
    column: int = 1


class QueryError(BraidError):
    """A query that does not parse or bind. The message shows the source with a caret."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        text: str = "",
        span: Span | None = None,
        origin: Origin | None = None,
        hint: str | None = None,
    ) -> None:
        self.text = text
        self.span = span
        self.origin = origin or Origin()
        super().__init__(code, message, hint)

    def render(self) -> str:
        name = self.origin.query or ""
        name = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
        where = f" in query '{name}'" if name else ""
        if self.span is None:
            text = f"error[{self.code}]{where}: {self.message}"
            return f"{text}\n  {self.hint}" if self.hint else text
        line = self.origin.line + self.span.line - 1
        column = self.span.column + (self.origin.column - 1 if self.span.line == 1 else 0)
        place = f"{self.origin.name}:{line}:{column}" if self.origin.name else f"{line}:{column}"
        source, indent, length = _shown_line(self.text, self.span)
        gutter = f"{line:>4}"
        caret = " " * indent + "^" * length
        shown = f"error[{self.code}]{where} ({place}): {self.message}\n{gutter} | {source}\n"
        shown += f"{' ' * len(gutter)} | {caret}"
        return f"{shown} {self.hint}" if self.hint else shown

    def __reduce__(self) -> tuple[object, ...]:
        return (
            _query_error,
            (self.code, self.message, self.text, self.span, self.origin, self.hint),
        )


@lru_cache(maxsize=1)
def line_starts(text: str) -> list[int]:
    """The offsets of the lines of a text. Cached for the last text, because a file has many errors."""
    starts, place = [0], text.find("\n")
    while place >= 0:
        starts.append(place + 1)
        place = text.find("\n", place + 1)
    return starts


def _shown_line(text: str, span: Span) -> tuple[str, int, int]:
    """The line of an error, the indent of the caret and its length. A long line is cut around the
    error."""
    starts = line_starts(text)
    if span.line > len(starts):
        return "", 0, 1
    begin = starts[span.line - 1]
    stop = text.find("\n", begin)
    stop = len(text) if stop < 0 else stop
    first = begin
    if stop - begin > _SHOWN:
        first = max(begin, begin + span.column - 1 - _BEFORE)
        stop = min(stop, first + _SHOWN)
    before = "…" if first > begin else ""
    source = before + text[first:stop].replace("\r", "")
    indent = len(before) + span.column - 1 - (first - begin)
    return source, indent, max(1, min(span.length, stop - first - indent + len(before)))


def _query_error(
    code: str, message: str, text: str, span: Span | None, origin: Origin, hint: str | None
) -> QueryError:
    return QueryError(code, message, text=text, span=span, origin=origin, hint=hint)


class QueryErrors(BraidError):
    """All errors of a file or a set of queries."""

    def __init__(self, errors: Sequence[BraidError]) -> None:
        assert errors
        self.errors = tuple(errors)
        super().__init__(self.errors[0].code, "\n\n".join(e.render() for e in self.errors))

    def render(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (QueryErrors, (self.errors,))


class ConfigError(BraidError):
    """A job file, an option or an environment that cannot work."""


class CheckpointError(BraidError):
    """A checkpoint that is damaged or does not match the program that opens it."""


#: The hint for damaged state.
ANEW = "restore an older copy of it, or start anew"


def damaged(what: str, hint: str = ANEW) -> CheckpointError:
    """The error for saved state that is damaged."""
    return CheckpointError("E421", f"the saved state is damaged: {what}", hint)


class PipelineError(BraidError):
    """A pipeline that failed while it ran: one of its processes ended, or it is stuck. The next run
    continues from the last committed batch."""


@dataclass(frozen=True)
class Notice:
    """A warning about something that runs, shown on registration or when it occurs.

    `query` is empty if the notice is about a stream or a function.
    """

    code: str
    query: str
    message: str

    @property
    def about(self) -> tuple[str, str, str]:
        """The subject of the notice. Braid reports each subject once; the text after a colon is
        detail."""
        return (self.code, self.query, self.message.partition(": ")[0])

    def render(self) -> str:
        where = f" in query '{self.query}'" if self.query else ""
        return f"warning[{self.code}]{where}: {self.message}"
