"""What a user should know about a query that is not wrong."""

from __future__ import annotations

from collections.abc import Sequence

from braid.algebra.nodes import Sequence as NextNode
from braid.algebra.nodes import is_unbounded, walk_nodes
from braid.algebra.templates import Output

#: Codes and messages.
Warnings = tuple[tuple[str, str], ...]


def unbounded(outputs: Sequence[Output]) -> Warnings:
    """The warning for patterns that may hold events for ever."""
    endless = [n for o in outputs for n in walk_nodes(o.node) if is_unbounded(n)]
    if not endless:
        return ()
    words = dict.fromkeys("NEXT" if isinstance(n, NextNode) else "FOLD" for n in endless)
    message = (
        f"{' and '.join(words)} without a bound may hold events for ever; "
        "add a limit such as DUR <= 1h to the predicate, or to a FILTER above"
    )
    return (("W201", message),)
