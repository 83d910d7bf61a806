"""Text of an m-op for `explain`: its family's details, its queries, and the rules that made it."""

from __future__ import annotations

from braid.engine.explain.overview import MopView, QuerySample
from braid.operators.core.wording import counted
from braid.operators.registry import REGISTRY
from braid.optimizer.rules import RULES

_SAYS = {rule.name: rule.says for rule in RULES}


def named(who: QuerySample, word: str) -> str:
    """`3 members a, b, c`; of many only some are named."""
    more = who.count - len(who.some)
    shown = ", ".join(who.some) + (f" and {more:,} more" if more else "")
    return f"{counted(who.count, word)} {shown}".rstrip()


def details(view: MopView) -> list[str]:
    """Details of an m-op besides its work and its members."""
    spec = view.mop.spec
    return list(REGISTRY.kind_of(spec).explain(spec, view.detail, view.unit))


def rules_of(view: MopView) -> tuple[str, ...]:
    """The rules that made it. A default rule is named only if no other applied."""
    made_by = view.mop.made_by
    better = [name for name in made_by if not name.startswith("d_")]
    return tuple(better or made_by)


def origin_lines(view: MopView) -> list[str]:
    """The rules that made it, and the operators that they merged."""
    rules = rules_of(view)
    origin = REGISTRY.kind_of(view.mop.spec).origin
    if origin is not None:
        return [origin]
    what = counted(view.operators, view.kind)
    if not rules:
        return [f"merged by no rule: {what}"]
    if len(rules) == 1:
        return [f"merged by {rules[0]} from {what}: {_SAYS[rules[0]]}"]
    lines = [f"merged by {', '.join(rules)} from {what}"]
    return lines + [f"  {name}: {_SAYS[name]}" for name in rules]
