"""The options of Braid, each declared once: engines, sessions, job files and saved state read them here.

To add an option, declare a field of `Options` and add its row to the table in
`docs/configuration.md`. `Engine(...)`, `Session(...)`, job files, snapshots and checkpoints iterate
over the fields, so they take, check and save the option without a change.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from inspect import getattr_static
from typing import Any, Generic, TypeVar, overload

from braid.algebra.constraints import Constraint, ConstraintMode, Watching
from braid.algebra.user_functions import Function
from braid.engine.constraints import constraint_mode, watching
from braid.errors import CheckpointError, ConfigError
from braid.lang import parse_duration
from braid.operators.core.selection_choice import CHOICES, Choice
from braid.operators.core.selection_settings import Selections, selections
from braid.optimizer.rules import enabled

#: What a user may give, and what the option keeps of it.
Given = TypeVar("Given")
Kept = TypeVar("Kept")

#: A time without end. Job files need a word for it, because TOML has no null.
NEVER = "never"

#: A job file has a value of the wrong kind.
_WRONG_KIND = "E455"


@dataclass(eq=False)
class Option(Generic[Given, Kept]):
    """One option: its default, its documentation, its check, and where it applies.

    It is a descriptor. The constructor of `Options` takes what a user may give, and the field has
    the checked value in one form, whatever form the user chose.
    """

    default: Given
    #: A value other than the default.
    example: Given
    #: One line for users.
    doc: str
    #: What users may give, in words: errors say that a value "is not" this.
    takes: str
    #: The code of the error for a value of the wrong kind.
    code: str
    #: The checked value in its one form, which it takes as well. It raises `ConfigError` with a
    #: message of its own, or `ValueError` for a value that is not what the option takes.
    convert: Callable[[Any], Kept]
    #: The checked value as JSON, which `convert` takes as well.
    to_json: Callable[[Kept], Any] = lambda value: value
    #: The table of a job file that has the option.
    table: str = "engine"
    #: Whether only sessions use the option. Engines keep it without effect.
    session_only: bool = False
    #: If the option has another value than the checkpoint, the start fails with this error.
    fixed: str | None = None
    #: The code of every error about the option in a job file, if it is not the same as elsewhere.
    code_in_file: str | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.__doc__ = self.doc

    @overload
    def __get__(self, instance: None, owner: type) -> Given: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Kept: ...
    def __get__(self, instance: object | None, owner: type) -> Given | Kept:
        if instance is None:
            return self.default  # `dataclass` reads the default of a field so
        kept: Kept = instance.__dict__[self.name]
        return kept

    def __set__(self, instance: object, value: Given) -> None:
        instance.__dict__[self.name] = self.checked(value)

    def checked(self, value: Any) -> Kept:
        """The value in its one form."""
        try:
            return self.convert(value)
        except ValueError:
            raise ConfigError(self.code, self._not_taken(value)) from None

    def checked_in_file(self, value: Any) -> Kept:
        """The value of a job file in its one form; codes are those of job files."""
        try:
            return self.convert(value)
        except ValueError:
            raise ConfigError(_WRONG_KIND, self._not_taken(value)) from None
        except ConfigError as error:
            if self.code_in_file is None:
                raise
            raise ConfigError(self.code_in_file, self._not_taken(value), error.hint) from None

    def _not_taken(self, value: Any) -> str:
        return f"{self.name} = {value!r} is not {self.takes}"


def _whole(least: int, code: str, message: str) -> Callable[[Any], int]:
    """Takes whole numbers; one below `least` has its own error."""

    def convert(value: Any) -> int:
        number = _index(value)
        if number < least:
            raise ConfigError(code, message)
        return number

    return convert


def _index(value: Any) -> int:
    if isinstance(value, bool):
        raise ValueError
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError from None


def _positive_or_none(value: Any) -> int | None:
    if value is None:
        return None
    number = _index(value)
    if number < 1:
        raise ValueError
    return number


def _time(value: Any) -> int | None:
    """Microseconds, of a number or a text such as "10 s"; None for a time without end."""
    if value is None or value == NEVER:
        return None
    time = parse_duration(value) if isinstance(value, str) else _index(value)
    if time < 0:
        raise ValueError
    return time


def _time_above_0(value: Any) -> int | None:
    time = _time(value)
    if time == 0:
        raise ValueError
    return time


def _rules(value: Any) -> frozenset[str]:
    """The names of the rules that are on."""
    if isinstance(value, Mapping):
        if not all(isinstance(on, bool) for on in value.values()):
            raise ValueError
    elif value is not None and not isinstance(value, str):
        if not isinstance(value, Iterable):
            raise ValueError
        value = list(value)
        if not all(isinstance(name, str) for name in value):
            raise ValueError
    return enabled(value)


def _selection_join(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return Choice(value).form


@dataclass(frozen=True)
class Options:
    """The options of an engine or a session. Pass one as `options=...`, or each by its name.

    >>> import braid
    >>> options = braid.Options(idle_timeout="5 s", rules={"c_seq": False})
    >>> options.idle_timeout
    5000000
    >>> engine = braid.Engine(options=options, instance_budget=1000)
    >>> engine.options.idle_timeout, engine.options.instance_budget
    (5000000, 1000)

    Times are in microseconds or texts, sizes in bytes. docs/configuration.md has a table of all
    options.
    """

    instance_budget: Option[int, int] = Option(
        1_000_000,
        50_000,
        doc="A query that holds more instances on one shard is suspended.",
        takes="a whole number",
        code="E302",
        convert=_whole(1, "E302", "instance_budget must be at least 1"),
    )
    idle_timeout: Option[str | int | None, int | None] = Option(
        "60 seconds",
        "5 s",
        doc="A stream that is silent for this long no longer holds back the others; when all are "
        'silent, the newest results come out. None or "never" waits forever.',
        takes="a time",
        code="E113",
        convert=_time,
    )
    rules: Option[Mapping[str, bool] | Iterable[str] | str | None, frozenset[str]] = Option(
        "all",
        {"c_seq": False},
        doc="The rules of the optimizer that are on.",
        takes='"all", "none", a list of names, or a mapping of names to true or false',
        code="E305",
        convert=_rules,
        to_json=sorted,
        fixed="E423",
    )
    constraints: Option[str | ConstraintMode, ConstraintMode] = Option(
        "exact",
        "monitored",
        doc="How joins use declared or observed constraints, unless a query says it itself.",
        takes='a mode: "exact", "monitored" or "off"',
        code="E315",
        convert=constraint_mode,
        to_json=lambda mode: mode.value,
        fixed="E316",
        code_in_file="E468",
    )
    watching: Option[Watching | Mapping[str, Any] | None, Watching] = Option(
        None,
        {"margin": 1.5, "window": 2000},
        doc="How joins observe constraints that nobody declared.",
        takes="a mapping of margin, sample, window, threshold, worth or loss",
        code="E318",
        convert=watching,
        to_json=asdict,
    )
    spill_above: Option[int, int] = Option(
        64 << 20,
        1 << 30,
        doc="The bytes that a join holds on one shard before it moves rows out of memory.",
        takes="a whole number",
        code="E317",
        convert=_whole(0, "E317", "spill_above must not be negative"),
    )
    selection_join: Option[str, str] = Option(
        "adaptive",
        "pdfa_grid",
        doc="How selection joins find members; the default is the form that costs least.",
        takes=f"a form: {', '.join(CHOICES)}",
        code="E325",
        convert=_selection_join,
    )
    member_set_bytes: Option[int, int] = Option(
        256 << 20,
        1 << 30,
        doc="The bytes that each selection join may keep of lists of members.",
        takes="a whole number",
        code="E326",
        convert=_whole(0, "E326", "member_set_bytes must not be negative"),
    )
    selection: Option[Selections | Mapping[str, Mapping[str, Any]] | None, Selections] = Option(
        None,
        {"Stock": {"form": "asc", "mu": 0.1}},
        doc='How the selections of a stream are indexed, by its name, or "*" for all streams.',
        takes="a mapping of streams to settings",
        code="E327",
        convert=selections,
        to_json=Selections.to_json,
    )
    shards: Option[int | None, int | None] = Option(
        None,
        4,
        doc="How many engines share the work. None is the number of a checkpoint, or else of "
        "Spark's cores.",
        takes="a positive whole number",
        code="E409",
        convert=_positive_or_none,
        table="job",
        session_only=True,
        fixed="E413",
    )
    stall_timeout: Option[str | int | None, int | None] = Option(
        "10 minutes",
        "1 hour",
        doc="A pipeline in which no task and no batch ends for this long, while a batch is under "
        'way, fails (E419). None or "never" waits forever.',
        takes="a time above 0",
        code="E409",
        convert=_time_above_0,
        table="job",
        session_only=True,
        code_in_file=_WRONG_KIND,
    )

    def to_json(self) -> dict[str, Any]:
        """All options by name, as JSON; `Options(**...)` takes it back."""
        return {name: option.to_json(getattr(self, name)) for name, option in all_options().items()}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Options:
        """The options that `to_json` gave. One that is newer than the saved state has its default."""
        for name in saved:
            if name not in all_options():
                message = f"the saved state has an option {name!r} that this version lacks"
                raise CheckpointError("E420", message, "use the version that wrote it")
        return cls(**saved)


@dataclass(frozen=True)
class ShardOptions:
    """The options of a user with what the shard has from its session: functions, constraints."""

    user: Options = Options()
    functions: Mapping[str, Function] = field(default_factory=dict)
    #: The constraints that were declared.
    declared: tuple[Constraint, ...] = ()
    #: Read all attributes of each stream, so that queries which come later find what they need.
    whole_streams: bool = False
    #: Of the values by which documents are divided: which shard this is, and of how many.
    share: tuple[int, int] = (0, 1)


def all_options() -> dict[str, Option[Any, Any]]:
    """All options by name."""
    return {each.name: getattr_static(Options, each.name) for each in fields(Options)}


def chosen(
    options: Options | None, given: Mapping[str, Any], *, owner: str, session: bool
) -> Options:
    """What the keyword arguments of an engine or a session say; they override `options`."""
    known = [n for n, option in all_options().items() if session or not option.session_only]
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"options: {', '.join(known)}"
            raise TypeError(f"{owner} has no option {name!r}; {hint}")
    return replace(options or Options(), **given)
