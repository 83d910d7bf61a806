"""Windows in words: how many of which sizes, and what they keep."""

from __future__ import annotations

from collections.abc import Iterator

from braid.operators.core.family import Detail
from braid.operators.core.wording import counted, length
from braid.operators.window.spec import BufferSpec, WindowSpec


def window_lines(spec: WindowSpec, found: Detail, unit: str) -> Iterator[str]:
    yield _window_line(spec, found, unit)


def buffer_lines(spec: BufferSpec, found: Detail, unit: str) -> Iterator[str]:
    yield f"{_window_line(spec, found, unit)}, with {counted(found['columns'], 'column')}"
    if found["readers"]:
        yield f"rows go on with {counted(found['readers'], 'set')} of columns"
    if found["groupings"]:
        groups = f"{counted(found['groups'], 'group')} of {counted(found['nodes'], 'relation')}"
        yield f"{counted(found['groupings'], 'grouping')}: {groups}"


def _window_line(spec: WindowSpec | BufferSpec, found: Detail, unit: str) -> str:
    windows, longest = counted(found["windows"], "window"), found.get("longest")
    if longest is not None:
        shown = counted(longest, "row") if spec.kind == "rows" else length(longest, unit)
        sizes = found["sizes"]
        windows += f" of {shown}" if sizes == 1 else f" of {sizes:,} sizes, up to {shown}"
    if spec.kind == "unbounded":
        return f"{windows}; nothing is kept, and nothing leaves"
    kept = f"{windows}; keeps {counted(found['rows'], 'row')}, each once"
    if spec.keys:
        kept += f", in {counted(found['partitions'], 'partition')}"
    if spec.birth is not None:
        kept += f"; sees what starts at {spec.birth} or later"
    return kept
