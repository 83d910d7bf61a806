"""k_join: a join that is alone with its streams holds what can still join, and puts the rest aside.

    A -> window 1 h -\\                     A -\\
    B -> window 1 h --> join a = b -> Q  =>  B --> join a = b, windows inside -> Q

For a join that Istream is asked of, over windows by time, by rows or without end, of streams that no
other query joins: many such joins are better off sharing what they hold (`s_window_join`). Once a query has such a join it keeps it, whoever comes later. Rows that have had
their only partner, or whose partner will not come any more, leave memory before they leave the
window; see `docs/constraints.md`.

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
