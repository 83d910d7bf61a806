"""DETECT: syntax -> algebra. The inputs and WHERE are those of a join; the rest are settings.

DETECT name FROM inputs WHERE equalities
  [PACKING p | VERIFY ALWAYS | VERIFY NEVER] [BATCH n [WITHIN time]]
  [BUCKETS n {, n} | MEMORY n unit] [COUNTS | BITMAPS] [PARTITION BY attribute {, attribute}]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from braid.algebra.detection import (
    ANSWER,
    DEFAULT_BUCKETS,
    DEFAULT_PACKING,
    MOST_BUCKETS,
    Part,
    Settings,
)
from braid.algebra.detection_memory import Demand, fitting, least
from braid.algebra.expressions import Literal, Ref
from braid.algebra.join_graphs import equated, graph_of
from braid.algebra.joins import Comparison, JoinParts, parts_of
from braid.algebra.relations import (
    Detection,
    Join,
    Relation,
    StreamKind,
    ToStream,
    Window,
    WindowKind,
    keeps_everything,
    place,
)
from braid.algebra.schema import TICKS
from braid.algebra.text import show
from braid.algebra.types import Kind, kind_of
from braid.lang.bind.grouping import check_groupable
from braid.lang.bind.relations import bind_join
from braid.lang.bind.scopes import Bound
from braid.lang.bind.tables import Entry, FromScope, unknown_input
from braid.lang.parse import syntax
from braid.lang.parse.limits import MAX_WINDOW, exact_number, quoted
from braid.lang.parse.problems import At, Problem, listing

if TYPE_CHECKING:
    from braid.lang.bind.binder import Binder

_BYTES = {"B": 1, "BYTES": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
#: Settings that exclude each other.
_ALTERNATIVES = (("PACKING", "VERIFY"), ("BUCKETS", "MEMORY"), ("COUNTS", "BITMAPS"))
#: The most inputs. The number of paths through a join graph grows with them.
_MOST_INPUTS = 16
#: The most events of a batch. No larger batch would ever be complete.
MOST_IN_BATCH = 2**31 - 1
#: The most bytes of MEMORY, more than any machine has.
MOST_MEMORY = 2**40


def bind_detection(binder: Binder, query: syntax.Detect) -> Bound:
    """The stream of the answers."""
    relational = syntax.Relational(
        None, False, None, query.inputs, query.where, (), None, None, query.at
    )
    if not 2 <= len(query.inputs) <= _MOST_INPUTS:
        hint = "FROM lists what is joined: DETECT Fraud FROM A [Rows 100], B [Rows 100] WHERE ..."
        message = f"DETECT joins two to {_MOST_INPUTS} inputs, and here are {len(query.inputs)}"
        raise Problem("E200", message, query.at, hint)
    entries, predicate = bind_join(binder, relational)
    _check_windows(query, entries)
    join = Join(tuple(entry.table.relation for entry in entries), predicate)
    at = query.where.at if query.where is not None else query.at
    labels = tuple(entry.label or f"input {entry.number + 1}" for entry in entries)
    _check_predicate(parts_of(join), labels, at)
    reader = _Reader(query.settings, join)
    settings = reader.settings(labels)
    partition = _partition(reader.keys, join, FromScope(entries, query.where), labels)
    join = _by_key(query, join, partition)
    _warn(binder, labels, join.inputs)
    name = query.publish.name if query.publish else "the result of DETECT"
    return Bound(ToStream(Detection(join, settings, partition), StreamKind.DETECT), name)


# ---- inputs and WHERE ----------------------------------------------------------------------------


def _check_windows(query: syntax.Detect, entries: list[Entry]) -> None:
    for input_, entry in zip(query.inputs, entries, strict=True):
        relation = entry.table.relation
        if not isinstance(relation, Window):
            hint = "put a window on a stream: Istream(...) [Range 1 hour]"
            message = f"DETECT joins windows of streams, and {entry.table.stream.label} is none"
            raise Problem("E203", message, input_.stream.at, hint)


def _by_key(query: syntax.Detect, join: Join, partition: tuple[Part, ...]) -> Join:
    """The windows of a PARTITION BY: all have its key. A window may state the same key."""
    inputs: list[Relation] = []
    for number, (input_, window) in enumerate(zip(query.inputs, join.inputs, strict=True)):
        assert isinstance(window, Window)
        own = {part.columns[number] for part in partition}
        if window.keys and set(window.keys) != own:
            asked = ", ".join(window.keys)
            hint = f"write [Rows n]; DETECT ... PARTITION BY {asked} makes it {asked}'s own"
            at = input_.window.at if input_.window else input_.at
            raise Problem("E203", "DETECT has no window by another key than its own", at, hint)
        inputs.append(replace(window, keys=()))
    return replace(join, inputs=tuple(inputs))


# ---- PARTITION BY --------------------------------------------------------------------------------


def _partition(
    keys: Sequence[syntax.Column], join: Join, scope: FromScope, labels: tuple[str, ...]
) -> tuple[Part, ...]:
    """The attributes of PARTITION BY, which WHERE equates over all inputs, so that a result has one
    key."""
    found: dict[str, Part] = {}
    for key in keys:
        ref = _attribute(key, scope)
        number, own = place(ref.name)
        check_groupable(ref.type, "PARTITION BY", key.at)
        columns = equated(join, number, own)
        missing = [label for n, label in enumerate(labels) if n not in columns]
        if missing:
            shown = f"{labels[number]}.{own}"
            hint = f"add an equality of attributes such as {shown} = {missing[0]}.{own}"
            message = f"WHERE does not equate {shown} with an attribute of {listing(missing)}"
            raise Problem("E209", message, key.at, hint)
        if own in found or own in ANSWER:
            hint = "give the attribute another name in a sub-query"
            raise Problem("E209", f"answers have {own!r} already", key.at, hint)
        found[own] = Part(own, ref.type, tuple(columns[n] for n in range(len(labels))))
    return tuple(found.values())


def _attribute(key: syntax.Column, scope: FromScope) -> Ref:
    name = syntax.Name(None, key.name.name, key.name.at)
    if key.qualifier is None:
        ref = scope.resolve(name)
        assert isinstance(ref, Ref)
        return ref
    entry = scope.entry(key.qualifier.name)
    if entry is None:
        raise unknown_input(key.qualifier.name, key.qualifier.at, scope.labels())
    return entry.ref(name)


def _check_predicate(parts: JoinParts, labels: tuple[str, ...], at: At) -> None:
    """Check that only equality relates inputs, and that it connects all of them."""
    other = [_shown(c, labels) for c in parts.comparisons]
    other += [_shown(c, labels) for c in parts.equalities if not _can_be_hashed(c)]
    other += [_with_labels(show(rest), labels) for rest in parts.rest]
    if other:
        hint = "what is asked of one input alone may be anything: A.x > 5"
        message = f"DETECT relates its inputs by = of attributes or what is computed of them; {other[0]} is another test"
        raise Problem("E202", message, at, hint)
    groups = sorted(sorted(labels[n] for n in group) for group in parts.connected())
    if len(groups) > 1:
        shown = " and ".join(
            f"({', '.join(group)})" if len(group) > 1 else group[0] for group in groups
        )
        hint = f"WHERE does not relate {shown}; add an equality such as A.x = B.x between them"
        raise Problem("E201", "the inputs of DETECT are not connected", at, hint)


def _can_be_hashed(comparison: Comparison) -> bool:
    types = [side.expression.type for side in (comparison.left, comparison.right)]
    kind = kind_of(types[0])
    if comparison.function != "eq" or kind is not kind_of(types[1]):
        return False
    if kind is Kind.DECIMAL and types[0].scale != types[1].scale:
        return False
    return kind not in (Kind.OPAQUE, Kind.NULL)


def _shown(comparison: Comparison, labels: tuple[str, ...]) -> str:
    words = {"eq": "=", "eq_null_safe": "<=>", "ne": "<>", "lt": "<", "le": "<=", "gt": ">"}
    left, right = (
        f"{labels[side.input]}: {show(side.expression)}"
        for side in (comparison.left, comparison.right)
    )
    return f"({left}) {words.get(comparison.function, '>=')} ({right})"


def _with_labels(text: str, labels: tuple[str, ...]) -> str:
    for number, label in reversed(list(enumerate(labels))):
        text = text.replace(f"{number}.", f"{label}.")
    return text


def _warn(binder: Binder, labels: tuple[str, ...], inputs: tuple[Relation, ...]) -> None:
    endless = [n for n, r in zip(labels, inputs, strict=True) if keeps_everything(r)]
    if endless:
        message = (
            f"DETECT keeps something of every event of {listing(dict.fromkeys(endless))} for ever; "
            "give it a window, such as [Range 1 hour] or [Rows 1000]"
        )
        binder.warnings.append(("W202", message))


# ---- settings ------------------------------------------------------------------------------------


class _Reader:
    """A reader of the settings of one DETECT, which checks them against its join graph."""

    def __init__(self, given: tuple[syntax.Setting, ...], join: Join) -> None:
        self._graph = graph_of(join)
        self._windows = join.inputs
        self._unit = join.unit
        self._given: dict[str, syntax.Setting] = {}
        for setting in given:
            if setting.word in self._given:
                raise Problem("E208", f"{setting.word} is there twice", setting.at)
            self._given[setting.word] = setting
        for pair in _ALTERNATIVES:
            both = [self._given[word] for word in pair if word in self._given]
            if len(both) > 1:
                hint = f"{both[0].word} has said it already"
                message = f"{both[1].word} and {both[0].word} exclude each other"
                raise Problem("E208", message, both[1].at, hint)

    @property
    def keys(self) -> tuple[syntax.Column, ...]:
        """The attributes after PARTITION BY."""
        given = self._given.get("PARTITION BY")
        values = given.values if given is not None else ()
        return tuple(value for value in values if isinstance(value, syntax.Column))

    def settings(self, labels: tuple[str, ...]) -> Settings:
        counts = "BITMAPS" not in self._given
        batch, within = self._batch()
        packing = self._packing()
        demand = Demand(self._rows(), batch, counts, packing is not None, bool(self.keys))
        buckets = self._buckets(demand)
        return Settings(labels, batch, within, buckets, counts, packing, self._memory())

    def _rows(self) -> tuple[int | None, ...]:
        """The number of rows of each window, if it is known."""
        found: list[int | None] = []
        for window in self._windows:
            by_rows = isinstance(window, Window) and window.kind is WindowKind.ROWS
            size = window.size if isinstance(window, Window) and by_rows else None
            # Each key has as many rows, and the number of keys is unknown.
            found.append(size.value if isinstance(size, Literal) and not self.keys else None)
        return tuple(found)

    def _packing(self) -> float | None:
        verify, packing = self._given.get("VERIFY"), self._given.get("PACKING")
        if verify is not None:
            (word,) = verify.values
            assert isinstance(word, syntax.Ident)
            return -1.0 if word.name.upper() == "ALWAYS" else None
        if packing is None:
            return DEFAULT_PACKING
        threshold = float(_number(packing.values[0]))
        if not 0 <= threshold <= 1:
            hint = "it is the share of entries above which an answer is verified; VERIFY ALWAYS and VERIFY NEVER are the ends"
            raise Problem("E204", "PACKING is a number from 0 to 1", packing.values[0].at, hint)
        return threshold

    def _batch(self) -> tuple[int, int | None]:
        given = self._given.get("BATCH")
        if given is None:
            return 1, None
        (size,) = given.values
        number = _number(size)
        if number < 1:
            raise Problem("E205", "a batch has at least one event", size.at, "write e.g. BATCH 100")
        if number > MOST_IN_BATCH:
            message = f"a batch has at most {MOST_IN_BATCH:,} events"
            raise Problem("E205", message, size.at, "write e.g. BATCH 100")
        return int(number), self._within(given.length)

    def _within(self, length: syntax.Period | syntax.Number | None) -> int | None:
        match length:
            case None:
                return None
            case syntax.Period() as period:
                if self._unit == TICKS:
                    hint = "the time columns are integers: write a number of ticks"
                    message = "these streams count ticks, not seconds"
                    raise Problem("E114", message, period.at, hint)
                return _checked(period.microseconds, period.at)
        number = _number(length)
        if number < 0:
            raise Problem("E205", "WITHIN takes no negative length", length.at)
        return _checked(number, length.at)

    def _buckets(self, demand: Demand) -> tuple[int, ...]:
        edges = len(self._graph.edges)
        given, memory = self._given.get("BUCKETS"), self._given.get("MEMORY")
        if given is not None:
            return self._counted(given, edges)
        if memory is not None:
            return (self._fitting(memory, demand),) * edges
        return (DEFAULT_BUCKETS,) * edges

    def _counted(self, given: syntax.Setting, edges: int) -> tuple[int, ...]:
        numbers = []
        for value in given.values:
            number = _number(value)
            if not 1 <= number <= MOST_BUCKETS or number != int(number):
                message = f"BUCKETS are whole numbers from 1 to {MOST_BUCKETS:,}"
                raise Problem("E206", message, value.at)
            numbers.append(int(number))
        if len(numbers) not in (1, edges):
            pairs = f"{edges} pairs of inputs that WHERE relates"
            hint = f"give one number for all, or one for each of the {pairs}, in its order"
            message = f"{len(numbers)} numbers of buckets do not fit"
            raise Problem("E206", message, given.at, hint)
        return tuple(numbers) if len(numbers) == edges else (numbers[0],) * edges

    def _memory(self) -> int | None:
        given = self._given.get("MEMORY")
        return None if given is None else self._limit(given)

    def _limit(self, given: syntax.Setting) -> int:
        amount, unit = given.values
        assert isinstance(unit, syntax.Ident)
        size = _BYTES.get(unit.name.upper())
        if size is None:
            hint = "units: bytes, KB, MB, GB"
            raise Problem("E207", f"{unit.name!r} is not a unit of memory", unit.at, hint)
        number = _number(amount)
        if number > MOST_MEMORY:
            raise Problem("E207", "no machine has so much memory", amount.at)
        return int(number * size)

    def _fitting(self, given: syntax.Setting, demand: Demand) -> int:
        """The most buckets with which the planned memory stays within the limit."""
        limit = self._limit(given)
        found = fitting(self._graph, demand, limit)
        if found is None:
            bytes_ = least(self._graph, demand)
            hint = f"at least {bytes_:,} bytes; VERIFY NEVER and BITMAPS take less"
            message = f"{limit:,} bytes are too few for one bucket per attribute and a few events of each input"
            raise Problem("E207", message, given.at, hint)
        return found


def _checked(length: int | Decimal, at: At) -> int:
    if length > MAX_WINDOW:
        raise Problem("E205", "this WITHIN is longer than anything can last", at)
    return int(length)


def _number(value: object) -> Decimal:
    if isinstance(value, syntax.Number):
        number = exact_number(value.text)
        if number is None:
            raise Problem("E112", f"{quoted(value.text)} is too large, or too small", value.at)
        return number
    at = value.at if isinstance(value, syntax.Parameter | syntax.Ident) else (0, 1)
    hint = "parameters of FOR EACH stand in WHERE and in windows"
    raise Problem("E205", "how a DETECT is answered takes numbers", at, hint)
