"""s_window_join: joins over windows by time have the windows inside, whatever their sizes.

    A -> window 5 min -\\                           A -\\
    B -> window 1 h   --> join a = b -> Q1       B --> join a = b {5 min, 1 h} -> Q1
    A -> window 1 h   -\\                   =>                    {1 h, 2 h}   -> Q2
    B -> window 2 h   --> join a = b -> Q2

The join reads the streams and holds an event once, until the longest window is over; how long each
member sees it is data, asked of the combinations that are found. So an event comes once and leaves
once, and not once for every size.

Istream asks only what comes to a relation, and of what goes only what is equal to something that
comes at the same instant; this the join finds where it can be. Groups, DISTINCT, Dstream, Rstream
and further joins need all that goes: for them the join visits an event again whenever it leaves
windows of a size, and tells what goes with it. Windows by rows and unbounded ones stay m-ops, as do
those of joins of which nothing but the keys is shown: their rows are all alike, and held as one.

>>> S_WINDOW_JOIN.name
's_window_join'
"""

from __future__ import annotations

from braid.plan.sharing import WINDOW_JOIN, Operator, Rule, Sharing


def is_window_join(operator: Operator) -> bool:
    return operator.kind == WINDOW_JOIN


def share(operator: Operator, sharing: Sharing) -> Sharing:
    inputs = tuple(channel.signature for channel in operator.inputs)
    return sharing.by("s_window_join", (WINDOW_JOIN, inputs, operator.definition))


S_WINDOW_JOIN = Rule(
    "s_window_join", is_window_join, share, "joins have windows by time inside, of any sizes"
)
