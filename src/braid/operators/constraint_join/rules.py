"""k_join: if only one query joins some streams, the join evicts rows that can no longer match.

    A -> window 1 h -\\                     A -\\
    B -> window 1 h --> join a = b -> Q  =>  B --> join a = b, windows inside -> Q

For a join under Istream, over windows by time, by rows or without end, of streams that no other query
joins: many such joins share their rows instead (`s_window_join`). A query that has such a join keeps it
when others come later. Rows that have had their only partner, or whose partner will not come any more,
leave memory before they leave the window; see `docs/constraints.md`.

>>> K_JOIN.name
'k_join'
"""

from __future__ import annotations

from braid.plan.sharing import K_JOIN as KIND
from braid.plan.sharing import Operator, Rule, Sharing


def is_constraint_join(operator: Operator) -> bool:
    return operator.kind == KIND


def share(operator: Operator, sharing: Sharing) -> Sharing:
    inputs = tuple(channel.signature for channel in operator.inputs)
    return sharing.by("k_join", (KIND, inputs, operator.definition))


K_JOIN = Rule(
    "k_join",
    is_constraint_join,
    share,
    "a join that is alone with its streams holds what can still join",
)
