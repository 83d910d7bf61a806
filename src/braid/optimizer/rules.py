"""The m-rules, in the order in which they are tried: later ones share more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from braid.errors import ConfigError
from braid.operators.constraint_join.rules import K_JOIN
from braid.operators.detect.rules import S_DETECT
from braid.operators.documents.rules import S_XML
from braid.operators.group.rules import C_ALPHA, S_ALPHA
from braid.operators.join.rules import C_JOIN, S_JOIN, S_WINDOW_JOIN
from braid.operators.pattern.rules import C_MU, C_SEQ, S_MU, S_SEQ, T_MU, T_SEQ
from braid.operators.project.rules import C_PI, S_PI
from braid.operators.select.rules import C_SIGMA, D_SIGMA, S_SIGMA
from braid.operators.selection_join.rules import S_SELECTION_JOIN
from braid.operators.stream.rules import S_BETA, S_UNION
from braid.operators.to_stream.rules import S_STREAM
from braid.operators.window.rules import S_BUFFER, S_GROUPING, S_WINDOW
from braid.plan.sharing import Rule

RULES: tuple[Rule, ...] = (
    D_SIGMA,
    S_SIGMA,
    C_SIGMA,
    S_PI,
    C_PI,
    S_UNION,
    S_BETA,
    S_SEQ,
    S_MU,
    T_SEQ,
    T_MU,
    C_SEQ,
    C_MU,
    S_WINDOW,
    S_JOIN,
    C_JOIN,
    S_WINDOW_JOIN,
    S_DETECT,
    K_JOIN,
    S_SELECTION_JOIN,
    S_ALPHA,
    C_ALPHA,
    S_BUFFER,
    S_GROUPING,
    S_STREAM,
    S_XML,
)

#: Techniques that are no merging of operators but can be switched off like rules: reading what
#: another query publishes without materialising it; the indexes on static filter predicates, on
#: dynamic equality predicates of instances, and on forward predicates.
SWITCHES = {
    "inline": "a query that reads what another publishes reads its operators",
    "an_index": "instances are found by the constants that their step asks of an event",
    "ai_index": "instances are found by the values that they have bound",
    "xml_order": "values of documents that are compared by order are kept in order",
    "xml_views": "joins of documents by value are worked out once for all templates, with a view cache",
    "fr_index": "forward edges of a state with many are found by the constants that they ask",
}

NAMES = (*(rule.name for rule in RULES), *SWITCHES)


def enabled(choice: Mapping[str, bool] | Iterable[str] | str | None = None) -> frozenset[str]:
    """The names of the rules that are on: all but those set to False, those named, or none."""
    if choice is None or choice == "all":
        return frozenset(NAMES)
    if choice == "none":
        return frozenset()
    names = [choice] if isinstance(choice, str) else list(choice)
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ConfigError("E305", f"there is no rule {unknown[0]!r}", f"rules: {', '.join(NAMES)}")
    if isinstance(choice, Mapping):
        return frozenset(name for name in NAMES if choice.get(name, True))
    return frozenset(names)
