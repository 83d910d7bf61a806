"""The rules for windows: `s_window`, `s_buffer`, `s_grouping`.

s_window: windows of one kind on one stream become one m-op, whatever their sizes.

    S [Range 5 min] -> Q1          S [Range 5 min, 1 h, ...] -> Q1
    S [Range 1 h]   -> Q2   =>                               -> Q2

A row is kept once, for as long as the longest window wants it; it comes for all members at once
and goes for each at its own time. Queries of different births have windows of their own: those
of a query that comes later begin empty.

s_buffer, s_grouping: windows of one kind on one stream become one m-op, whatever their sizes, the
columns that are needed of them, and the groups that are made of them.

    S [Range 5 min] -> a, b               -> Q1       S -> windows {5 min, 1 h} -> a, b        -> Q1
    S [Range 1 h]   -> a, c -> group by a -> Q2   =>                            -> groups by a -> Q2
    S [Range 1 h]   -> b, c -> group by b -> Q3                                 -> groups by b -> Q3

`s_buffer` is for windows by time and by rows, `s_grouping` for groups over windows: RUMOR's table 5.1
asks it of its rule s_alpha, where the aggregates are the same, which they need not be here. An event is
held once, with the columns that somebody asks for; what comes and goes is gone through once and
handed to those who have a member for it.

Both are for windows on a declared or published stream, perhaps with events chosen below them. Keys
and what is aggregated are columns as they are; other groups have `s_alpha` and `c_alpha`, over
windows with the columns that they need. Windows on anything else have `s_window`.

>>> S_WINDOW.name
's_window'
>>> S_BUFFER.name, S_GROUPING.name
('s_buffer', 's_grouping')
"""

from __future__ import annotations

from braid.plan.sharing import BUFFER, GROUPING, WINDOW, Operator, Rule, Sharing


def _rule(name: str, kind: str, merged_as: str, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        return operator.kind == kind

    def merge(operator: Operator, sharing: Sharing) -> Sharing:
        inputs = tuple(channel.signature for channel in operator.inputs)
        return sharing.by(name, (merged_as, inputs, operator.definition))

    return Rule(name, condition, merge, says)


S_WINDOW = _rule("s_window", WINDOW, WINDOW, "windows of one kind on one stream keep a row once")
S_BUFFER = _rule(
    "s_buffer", BUFFER, BUFFER, "windows on one stream hold an event once, of any columns"
)
S_GROUPING = _rule(
    "s_grouping", GROUPING, BUFFER, "groups over one stream share windows, whatever their keys"
)
