"""Random join graphs over windows of all kinds, with declared constraints that are true, or nearly.

A graph is a tree with equalities more, between inputs that are joined already or not: so there are
chains, stars, triangles, longer cycles, several equalities between two inputs, one key of many inputs,
and streams that are joined with themselves.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from braid.algebra.constraints import Constraint, ConstraintKind
from braid.reference.constraints import BROKEN, Arrival, adherence

#: Columns that are joined.
_KEYS = "uvw"
_SCHEMA = pa.schema([(name, pa.int64()) for name in ("id", *_KEYS, "f", "t")])
_WINDOWS = ("[Rows {}]", "[Rows {}]", "[Range {}]", "[Range {}]", "[Now]", "")

#: Two inputs and a column of each.
Equality = tuple[int, str, int, str]


@dataclass(frozen=True)
class GraphJoin:
    """A join, what is declared of its streams, and how their events come."""

    statements: str
    query: str
    tables: Mapping[str, pa.Table]
    #: The last instant of each batch, and after which batches the engine is restarted.
    cuts: tuple[int, ...]
    restarts: frozenset[int]
    #: Whether no two results are equal.
    identified: bool

    def batches(self) -> list[dict[str, pa.Table]]:
        found, start = [], -1
        for cut in self.cuts:
            part = {}
            for name, table in self.tables.items():
                t = table["t"].to_numpy()
                part[name] = table.filter(pa.array((t > start) & (t <= cut)))
            found.append(part)
            start = cut
        return found


@st.composite
def graph_joins(draw: st.DrawFn, *, identified: bool = False, parted: bool = False) -> GraphJoin:
    """`identified`: no two results are equal. `parted`: an input is a partition, so that what is joined
    are relations whose rows come and go."""
    count = draw(st.sampled_from([2, 3, 3, 3, 4, 4]))
    streams = draw(st.sampled_from([count, count, max(1, count - 1)]))
    rows = _rows(draw, streams)
    inputs = [f"S{number % streams}" for number in range(count)]
    equalities = _equalities(draw, count)
    known = _declared(draw, rows, inputs, equalities)
    columns = ", ".join(f"{name} BIGINT" for name in _SCHEMA.names)
    statements = "".join(f"CREATE STREAM {name} ({columns}) TIME t;" for name in rows)
    identified = identified or bool(draw(st.integers(0, 4)))
    last = max(int(row["t"]) for own in rows.values() for row in own)
    cuts = draw(st.sets(st.integers(0, last), max_size=8))
    if draw(st.integers(0, 3)) == 0:
        cuts = set(range(last))
    numbers = st.integers(0, len(cuts))
    return GraphJoin(
        statements + "".join(_text(constraint) for constraint in known),
        _query(draw, inputs, equalities, identified=identified, parted=parted),
        {name: pa.Table.from_pylist(own, schema=_SCHEMA) for name, own in rows.items()},
        (*sorted(cuts - {last}), last),
        draw(st.frozensets(numbers, max_size=2)),
        identified,
    )


def _rows(draw: st.DrawFn, streams: int) -> dict[str, list[dict[str, Any]]]:
    """Values rise with the time, more or less, or are any of a few; some are NULL."""
    events, together = draw(st.integers(6, 36)), draw(st.sampled_from([1, 1, 3]))
    apart, step = draw(st.sampled_from([0, 1, 2, 4])), draw(st.sampled_from([2, 3, 5]))
    rising = {
        (number, column): bool(draw(st.integers(0, 3)))
        for number in range(streams)
        for column in _KEYS
    }
    chance = random.Random(draw(st.integers(0, 9999)))
    found: dict[str, list[dict[str, Any]]] = {}
    for number in range(streams):
        own = found[f"S{number}"] = []
        for event in range(events):
            row: dict[str, Any] = {"id": event, "f": chance.randrange(10)}
            row["t"] = (streams * event + number) // together
            for column in _KEYS:
                near = (event + chance.randint(-apart, apart)) // step
                value = near if rising[number, column] else chance.randrange(3)
                row[column] = None if chance.random() < 0.02 else value
            own.append(row)
    return found


def _equalities(draw: st.DrawFn, count: int) -> list[Equality]:
    column = st.sampled_from(_KEYS)
    pairs = [(draw(st.integers(0, second - 1)), second) for second in range(1, count)]
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 3]))):
        second = draw(st.integers(1, count - 1))
        pairs.append((draw(st.integers(0, second - 1)), second))
    return [(first, draw(column), second, draw(column)) for first, second in pairs]


def _query(
    draw: st.DrawFn,
    inputs: Sequence[str],
    equalities: Sequence[Equality],
    *,
    identified: bool,
    parted: bool,
) -> str:
    where = [f"I{i}.{a} = I{j}.{b}" for i, a, j, b in equalities]
    for number in range(len(inputs)):
        if draw(st.integers(0, 2)) == 0:
            where.append(f"I{number}.f < {draw(st.sampled_from([1, 3, 5, 9]))}")
    if draw(st.integers(0, 6)) == 0:
        where.append("I0.f <= I1.f")
    size = st.sampled_from([1, 2, 3, 5, 20])
    windows = [draw(st.sampled_from(_WINDOWS)).format(draw(size)) for _ in inputs]
    match 2 if parted else draw(st.integers(0, 9)):
        case 0 | 1:
            windows = [f"[Range {draw(size)}]" for _ in inputs]
        case 2 | 3:
            parts = f"[Partition By {draw(st.sampled_from(_KEYS))} Rows {draw(st.integers(1, 2))}]"
            windows[draw(st.integers(0, len(inputs) - 1))] = parts
    shown = ", ".join(f"I{number}.id As i{number}" for number in range(len(inputs)))
    shown = shown if identified else "I0.u As a, I1.v As b"
    sources = ", ".join(
        f"{name} {window} As I{number}"
        for number, (name, window) in enumerate(zip(inputs, windows, strict=True))
    )
    return f"Select {shown} From {sources} Where {' And '.join(where)} PUBLISH Out"


def _declared(
    draw: st.DrawFn,
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    inputs: Sequence[str],
    equalities: Sequence[Equality],
) -> list[Constraint]:
    """Constraints with the least k that is true, or a little less."""
    came = [Arrival(name, row["t"], row) for name, own in rows.items() for row in own]
    came.sort(key=lambda arrival: arrival.time)
    found = []
    for number in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):
        kind = draw(st.sampled_from(list(ConstraintKind)))
        timed = kind is not ConstraintKind.KEY and draw(st.integers(0, 2)) == 0
        if kind is ConstraintKind.REFERENCES:
            i, a, j, b = draw(st.sampled_from(equalities))
            if inputs[i] == inputs[j]:
                continue
            if draw(st.booleans()):
                i, a, j, b = j, b, i, a
            made = Constraint(f"c{number}", kind, inputs[i], (a,), inputs[j], (b,), timed=timed)
        else:
            name, column = draw(st.sampled_from(sorted(rows))), draw(st.sampled_from(_KEYS))
            made = Constraint(f"c{number}", kind, name, (column,), timed=timed)
        k = adherence(made, came)
        if k != BROKEN:
            less = draw(st.sampled_from([0, 0, 0, 2])) if kind is not ConstraintKind.KEY else 0
            found.append(replace(made, k=max(0, k - less)))
    return found


def _text(constraint: Constraint) -> str:
    within = f"WITHIN {constraint.k} {'TICKS' if constraint.timed else 'ROWS'}"
    says = f"{constraint.kind.name} {within}"
    if constraint.kind is ConstraintKind.KEY:
        says = "KEY"
    elif constraint.kind is ConstraintKind.REFERENCES:
        says = f"REFERENCES {constraint.target} ({constraint.target_attributes[0]}) {within}"
    (column,) = constraint.attributes
    return f"CREATE CONSTRAINT {constraint.name} ON {constraint.stream} ({column}) {says};"
