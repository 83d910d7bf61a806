"""Sequences and iterations in words: their indexes, their states, how long instances live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from braid.operators.core.family import Detail
from braid.operators.core.wording import counted, length, some
from braid.operators.pattern.spec import Key, StepSpec
from braid.operators.select.explain import index_form
from braid.plan.column_names import shown_columns


def step_lines(spec: StepSpec, found: Detail, unit: str) -> Iterator[str]:
    yield from _instance_lines(spec, found)
    parts = [counted(found[what + "s"], what) for what in ("group", "state", "output")]
    yield ", ".join(parts)
    yield _forward_line(found)
    yield _bound_line(found["bounds"], unit)


def step_box(spec: StepSpec, found: Detail, unit: str) -> Iterator[str]:
    static = any(c["columns"] for c in found["static"])
    by_constants = "found by constants" if static else "no index"
    yield f"hash on {_keys_shown(spec.keys)}" if spec.keys else by_constants
    yield _bound_line(found["bounds"], unit)


def _keys_shown(keys: Sequence[Key]) -> str:
    shown = " AND ".join(
        f"$2.{k.event} = {'$1.' if k.instance.startswith('f:') else '$.'}{k.instance[2:]}"
        for k in keys
    )
    return shown_columns(shown)


def _instance_lines(spec: StepSpec, found: Detail) -> Iterator[str]:
    """The indexes by which an event finds instances: of bound values (AI), of constants (AN)."""
    static = [c for c in found["static"] if c["columns"]]
    if spec.keys:
        yield f"AI index: hash on {_keys_shown(spec.keys)}"
    if static:
        classes = [f"{' + '.join(map(_own, c['columns']))} ({c['groups']:,})" for c in static]
        yield f"AN index: by the constants asked of {some(classes)}"
    if not spec.keys:
        groups = sum(c["groups"] for c in found["static"] if not c["columns"])
        if not static:
            yield "no index: every instance is looked at"
        elif groups:
            yield f"no index for {counted(groups, 'group')}: every instance is looked at"


def _own(column: str) -> str:
    """The number of a member's node, which a row carries where the input has members."""
    return "member" if column == "#" else f"$2.{shown_columns(column)}"


def _forward_line(found: Detail) -> str:
    """The forward edges (FR): tested one after the other where a state has few, else indexed."""
    edges, forward = found["edges"], found["forward"]
    if forward is not None:
        inline = f"{counted(edges, 'edge')} inline, " if edges else ""
        indexed = f"{counted(int(forward['predicates']), 'edge')} indexed"
        return f"FR index: {inline}{indexed} ({index_form(forward)})"
    if edges:
        return f"forward: {counted(edges, 'edge')} inline"
    return "forward: every composite goes on"


def _bound_line(bounds: dict[str, Any], unit: str) -> str:
    """How long instances live."""
    low, high, unbounded = bounds["lowest"], bounds["highest"], bounds["unbounded"]
    if low is None:
        return "unbounded" if unbounded else "waits for nothing"
    shown = length(high, unit) if low == high else f"{length(low, unit)} to {length(high, unit)}"
    rest = f"; {counted(unbounded, 'state')} unbounded" if unbounded else ""
    return f"expires after {shown}{rest}"
