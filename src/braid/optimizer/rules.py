"""The m-rules, in the order in which they are tried: later ones share more.

The registry has the families in an order, and each family its rules. A rule speaks of operators of
its own family only, so the order between families decides nothing but how rules are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from braid.errors import ConfigError
from braid.operators.registry import REGISTRY
from braid.plan.sharing import Rule

RULES: tuple[Rule, ...] = tuple(rule for family in REGISTRY.families for rule in family.rules)

#: Techniques that are no merging of operators but can be switched off like rules: reading what
#: another query publishes without materialising it, and those of the families.
SWITCHES = {
    "inline": "a query that reads what another publishes reads its operators",
    **{name: does for family in REGISTRY.families for name, does in family.switches.items()},
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
