"""s_window: windows of one kind on one stream become one m-op, whatever their sizes.

    S [Range 5 min] -> Q1          S [Range 5 min, 1 h, ...] -> Q1
    S [Range 1 h]   -> Q2   =>                               -> Q2

A row is kept once, for as long as the longest window wants it; it comes for all members at once
and goes for each at its own time. Queries of different births have windows of their own: those
of a query that comes later begin empty.

>>> S_WINDOW.name
's_window'
"""

from __future__ import annotations

from braid.plan.sharing import WINDOW, Operator, Rule, Sharing


def is_window(operator: Operator) -> bool:
    return operator.kind == WINDOW


def share(operator: Operator, sharing: Sharing) -> Sharing:
    inputs = tuple(channel.signature for channel in operator.inputs)
    return sharing.by("s_window", (WINDOW, inputs, operator.definition))


S_WINDOW = Rule("s_window", is_window, share, "windows of one kind on one stream keep a row once")
