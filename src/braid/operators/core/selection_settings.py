"""How the selections of a stream are indexed, as a user chooses it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from braid.errors import ConfigError


class Form(Enum):
    """How clauses are found: by the fastest form, or always by one."""

    ADAPTIVE = "adaptive"
    ACCESS = "access"
    ASC = "asc"
    IN_TURN = "sequential"


STRATEGIES = ("fixed", "macro", "hybrid")
MEASURES = ("cost", "filtering")

#: Stands for every stream that has no settings of its own.
EVERY_STREAM = "*"


@dataclass(frozen=True)
class SelectionSettings:
    """The form of an index, and how its ASC form orders constructs.

    `tau`: rows of a monitoring period. `recompute`: rows after which it is judged whether the
    sequence is still good (the lambda of the ASC). `mu`: by how much the figures must have changed
    for a new sequence to be looked for, relative to what they were. The monitor looks at every
    `sample`-th row.
    """

    form: Form = Form.ADAPTIVE
    strategy: str = "hybrid"
    measure: str = "cost"
    tau: int = 2_000
    recompute: int = 10_000
    mu: float = 0.02
    sample: int = 8


#: What a user may say: its name, what it must be, and whether it is that.
_WHOLE = ("a whole number of at least 1", lambda v: type(v) is int and v >= 1)
_KNOWN: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "form": (
        f"one of {', '.join(f.value for f in Form)}",
        lambda v: any(v == form.value for form in Form),
    ),
    "strategy": (f"one of {', '.join(STRATEGIES)}", lambda v: v in STRATEGIES),
    "measure": (f"one of {', '.join(MEASURES)}", lambda v: v in MEASURES),
    "tau": _WHOLE,
    "lambda": _WHOLE,
    "mu": (
        "a number of at least 0",
        lambda v: type(v) in (int, float) and 0 <= v < math.inf,
    ),
    "sample": _WHOLE,
}


@dataclass(frozen=True)
class Selections:
    """The settings of each stream."""

    by_stream: Mapping[str, SelectionSettings] = field(default_factory=dict)

    def of(self, *streams: str) -> SelectionSettings:
        """The settings of the first of these streams that has some, else those of every stream."""
        for stream in (*streams, EVERY_STREAM):
            if stream in self.by_stream:
                return self.by_stream[stream]
        return SelectionSettings()

    def to_json(self) -> dict[str, dict[str, Any]]:
        """What `selections` takes."""
        found = {}
        for stream, settings in self.by_stream.items():
            said = asdict(settings)
            said["lambda"] = said.pop("recompute")
            found[stream] = {**said, "form": settings.form.value}
        return found


def selections(given: Selections | Mapping[str, Mapping[str, Any]] | None) -> Selections:
    """What a user says of the selections of each stream, checked.

    >>> selections({"Stock": {"form": "asc", "mu": 0.1}}).of("Stock").mu
    0.1
    """
    if given is None or isinstance(given, Selections):
        return given or Selections()
    if not isinstance(given, Mapping):
        hint = 'give settings by stream: {"Stock": {"form": "asc"}}; "*" is every stream'
        raise ConfigError("E327", f"selection={given!r} is not a mapping", hint)
    return Selections({stream: _settings(stream, said) for stream, said in given.items()})


def _settings(stream: str, said: Any) -> SelectionSettings:
    known = f"settings: {', '.join(_KNOWN)}"
    if not isinstance(said, Mapping):
        raise ConfigError("E327", f"selection of {stream}: {said!r} is not a mapping", known)
    for name, value in said.items():
        if name not in _KNOWN:
            raise ConfigError("E327", f"selection of {stream} has no setting {name!r}", known)
        what, holds = _KNOWN[name]
        if not holds(value):
            raise ConfigError("E327", f"selection of {stream}: {name} = {value!r} is not {what}")
    chosen = dict(said)
    if "form" in chosen:
        chosen["form"] = Form(chosen["form"])
    if "lambda" in chosen:
        chosen["recompute"] = chosen.pop("lambda")
    return SelectionSettings(**chosen)
