"""s_grouping: groups over windows of one kind on one stream become one m-op, whatever their keys,
aggregates, and sizes of windows.

    S [Range 5 min] -> group by a -> Q1       S -> windows {5 min, 1 h} -> groups by a -> Q1
    S [Range 1 h]   -> group by b -> Q2   =>                            -> groups by b -> Q2

This is what RUMOR's table 5.1 asks of its rule s_alpha, and more: the aggregates need not be the same.
The windows are inside, so that an event is held once, with the columns that somebody asks for; what
comes and goes is gone through once and handed to the groupings that have a member for it.

It is asked of groups over a window that stands on a declared or published stream, perhaps with
rows chosen below it; keys and what is aggregated are columns as they are. Other groups (over
joins, of computed keys, of rows chosen above [Rows n]) have `s_alpha` and `c_alpha`.

>>> S_GROUPING.name
's_grouping'
"""

from __future__ import annotations

from braid.optimizer.operators import GROUPINGS, Operator, Rule, Sharing


def is_groupings(operator: Operator) -> bool:
    return operator.kind == GROUPINGS


def share(operator: Operator, sharing: Sharing) -> Sharing:
    inputs = tuple(channel.signature for channel in operator.inputs)
    return sharing.by("s_grouping", (GROUPINGS, inputs, operator.definition))


S_GROUPING = Rule(
    "s_grouping", is_groupings, share, "groups over one stream share windows, whatever their keys"
)
