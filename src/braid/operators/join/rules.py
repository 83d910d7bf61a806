"""The rules for joins: `s_join`, `c_join`, `s_window_join`, `s_attribute_join`.

s_join, c_join: joins with one predicate become one m-op, whatever windows they are over.

    A [Range 5 min], B [Range 5 min] -> join a = b -> Q1       A, B -> join a = b -> Q1
    A [Range 1 h],   B [Range 2 h]   -> join a = b -> Q2   =>                     -> Q2

`s_join` merges joins of one definition over the same relations, `c_join` those over the relations
that channels encode, such as windows of different sizes and what selections with different
constants leave of them. That is precision sharing: a row is held once, with the set of members
that it is for, and a combination that is found once is that of all members that its rows are for.
Constants that are asked of combinations are data.

s_window_join: joins over windows by time have the windows inside, whatever their sizes.

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

s_attribute_join: window joins over other attributes of the same streams share one buffer.

    A, B -> join a = b -> Q1       A, B -> join {a = b, c = d} -> Q1
    A, B -> join c = d -> Q2   =>                              -> Q2

The idea is that of joins of documents by value (MMQJP), for relations. An event is held once, with an
index for each way of comparing that some join asks for. It applies to joins of streams as they are
whose predicates are equalities of attributes, under Istream. Other joins need sets of members at
each event, or conditions that each join asks for itself.

>>> S_JOIN.name, C_JOIN.name
('s_join', 'c_join')
>>> S_WINDOW_JOIN.name, S_ATTRIBUTE_JOIN.name
('s_window_join', 's_attribute_join')
"""

from __future__ import annotations

from braid.plan.sharing import ATTRIBUTE_JOIN, JOIN, WINDOW_JOIN, Operator, Rule, Sharing


def _inputs(operator: Operator) -> tuple[str, ...]:
    return tuple(channel.signature for channel in operator.inputs)


def _rule(name: str, membered: bool, says: str) -> Rule:
    def condition(operator: Operator) -> bool:
        reads_a_channel = any(channel.membered for channel in operator.inputs)
        return operator.kind == JOIN and reads_a_channel is membered

    def merge(operator: Operator, sharing: Sharing) -> Sharing:
        return sharing.by(name, (JOIN, _inputs(operator), operator.definition))

    return Rule(name, condition, merge, says)


def _is_window_join(operator: Operator) -> bool:
    return operator.kind == WINDOW_JOIN


def _share_windows(operator: Operator, sharing: Sharing) -> Sharing:
    return sharing.by("s_window_join", (WINDOW_JOIN, _inputs(operator), operator.definition))


def _is_attribute_join(operator: Operator) -> bool:
    return operator.kind == ATTRIBUTE_JOIN


def _share_buffer(operator: Operator, sharing: Sharing) -> Sharing:
    key = (ATTRIBUTE_JOIN, _inputs(operator), operator.definition[:1])
    return sharing.by("s_attribute_join", key)


S_JOIN = _rule("s_join", False, "joins of one predicate over the same relations are one")
C_JOIN = _rule("c_join", True, "joins over channels share one m-op, and hold a row once")
S_WINDOW_JOIN = Rule(
    "s_window_join",
    _is_window_join,
    _share_windows,
    "joins have windows by time inside, of any sizes",
)
S_ATTRIBUTE_JOIN = Rule(
    "s_attribute_join",
    _is_attribute_join,
    _share_buffer,
    "joins over other attributes of the same streams share one buffer",
)
