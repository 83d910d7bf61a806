"""The family of windows, and of buffers that windows and groups over them share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from braid.algebra.relations import GroupRows, Window
from braid.operators.core.family import Family, MopKind
from braid.operators.window.explain import buffer_lines, window_lines
from braid.operators.window.planning import grouped_window, window_rows
from braid.operators.window.rules import S_BUFFER, S_GROUPING, S_WINDOW
from braid.operators.window.spec import BufferSpec, WindowSpec

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _window(spec: WindowSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.window.logic import WindowLogic

    return WindowLogic(spec, context)


def _buffer(spec: BufferSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.window.buffer import BufferLogic

    return BufferLogic(spec, context)


FAMILY = Family(
    "window",
    mops=(
        MopKind(WindowSpec, "window", _window, window_lines),
        MopKind(BufferSpec, "window", _buffer, buffer_lines),
    ),
    rules=(S_WINDOW, S_BUFFER, S_GROUPING),
    plans={Window: window_rows},
    forms={GroupRows: grouped_window},
)
