"""s_selection_join: joins over streams with ranges of several attributes have one index of ranges.

    A -> a in [1, 5], b < 3 -\\                          A -\\
    B -> c > 7               --> join k = k -> Q1       B --> join k = k {boxes, windows} -> Q1
    A -> a in [2, 9], b < 8 -\\                     =>                                     -> Q2
    B -> c > 2               --> join k = k -> Q2

For a join over windows by time on streams, if each query asks nothing of a stream by itself but
comparisons of attributes with constants, at least three in all. The m-op holds each event once and
finds who wants it in one index over all attributes; births of queries are data too. Which attributes a
query restricts does not matter, nor do its windows. Where Istream reads it, it tells what comes; where
groups or others do, what goes as well, so that they have every query's rows at each instant.

>>> S_SELECTION_JOIN.name
's_selection_join'
"""

from __future__ import annotations

from braid.plan.sharing import SELECTION_JOIN, Operator, Rule, Sharing


def is_selection_join(operator: Operator) -> bool:
    return operator.kind == SELECTION_JOIN


def share(operator: Operator, sharing: Sharing) -> Sharing:
    inputs = tuple(channel.signature for channel in operator.inputs)
    return sharing.by("s_selection_join", (SELECTION_JOIN, inputs, operator.definition))


S_SELECTION_JOIN = Rule(
    "s_selection_join",
    is_selection_join,
    share,
    "joins of streams with ranges of many attributes have one index of ranges",
)
