"""What an operator family is: one descriptor with all that the rest of Braid knows of its m-ops.

A family is a package under `operators/`: specs, rules, planning, logic, kernels and texts. It exports
one `FAMILY` from its `family.py`, and `operators/registry.py` lists it. The driver, the executor and
`explain` ask the registry, so that none of them names a family. `docs/adding_an_operator.md` walks
through a small one.

A descriptor is imported with the optimizer. So a `family.py` imports specs, rules and planning, and
leaves logics, which bring the compiler, to the functions that build them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from braid.plan.sharing import Rule
from braid.plan.specs import Spec

if TYPE_CHECKING:
    from braid.algebra.constraints import Constraint, ConstraintMode
    from braid.algebra.nodes import Node
    from braid.operators.core.base import Context, Logic
    from braid.plan.planning import Planning
    from braid.plan.routes import Route
    from braid.plan.sharing import Channel

#: What a logic says about itself (`Logic.describe`).
Detail = dict[str, Any]
#: From a spec, what the m-ops of a shard share, and the channels that it reads, to a logic.
Build = Callable[[Any, "Context", Sequence[str]], "Logic"]
#: From a spec, its logic's detail and what its time counts, to lines of text.
Explain = Callable[[Any, Detail, str], Iterable[str]]
#: From the walk, a node or relation and the request for it, to the channel that has it. The walk is
#: a `Planning` for nodes and a `RowPlanning` for relations.
Plan = Callable[[Any, Any, Any], "Channel"]
#: The same, or None if this form of the operator does not fit.
Form = Callable[[Any, Any, Any], "Channel | None"]


def no_lines(spec: Spec, detail: Detail, unit: str) -> Iterable[str]:
    """There is nothing to say besides what the spec does."""
    return ()


@dataclass(frozen=True)
class MopKind:
    """One kind of m-op: its spec, what it is called, how to build it and how to explain it."""

    spec: type[Spec]
    #: What `explain` and `stats` call it: a word, or a function from the spec to the word.
    name: str | Callable[[Any], str]
    build: Build
    explain: Explain = no_lines
    #: Lines of its box in a picture of the plan, below its name.
    box: Explain = no_lines
    #: Why it is in the plan, if no rule of the optimizer puts it there.
    origin: str | None = None
    #: Whether queries are members of it.
    has_members: bool = True

    def name_of(self, spec: Spec) -> str:
        return self.name if isinstance(self.name, str) else self.name(spec)


#: The stream that an expression is, if it is one.
Named = Callable[["Node"], "str | None"]


@dataclass(frozen=True)
class ConstraintUse:
    """What a family does with the constraints that are declared of streams."""

    #: The rule that switches it on and off.
    rule: str
    #: Whether a state, arrays by name, is that of an m-op which it makes for one query.
    is_own: Callable[[Mapping[str, Any]], bool]
    #: Attributes of streams that are read because of what is declared.
    reads: Callable[[Sequence[Node], tuple[Constraint, ...]], Iterable[tuple[str, tuple[str, ...]]]]
    #: Adds the m-ops that see whether what is declared holds.
    watch: Callable[[Planning, Sequence[Node]], None]
    #: Whether an expression has an operator that uses constraints in a mode.
    may_use: Callable[[Node, ConstraintMode], bool]
    #: Whether a route has m-ops that see whether what is declared holds.
    is_watched: Callable[[Route], bool]
    #: A route whose watches know why a query does not use what they watch. Arguments: the route,
    #: the one that the query would have by itself, the expressions, the names of streams.
    with_reasons: Callable[[Route, Route | None, Sequence[Node], Named], Route]


@dataclass(frozen=True)
class Family:
    """An operator family. Only `name` is needed: a family may have rules only, or m-ops only."""

    name: str
    mops: tuple[MopKind, ...] = ()
    #: In the order in which they are tried: later ones share more.
    rules: tuple[Rule, ...] = ()
    #: Techniques that merge nothing but can be switched off like rules, and what each does.
    switches: Mapping[str, str] = field(default_factory=dict)
    #: How to plan the nodes and relations of the algebra that are this family's.
    plans: Mapping[type, Plan] = field(default_factory=dict)
    #: Special forms of other families' nodes and relations. The family that plans these asks the
    #: forms first, those of later families before those of earlier ones.
    forms: Mapping[type, Form] = field(default_factory=dict)
    #: Nodes and relations that apply the selection and the picking of columns above them by
    #: themselves; the request says what these are.
    composites: frozenset[type] = frozenset()
    #: Lines about one query below its plan, from its expression and its id.
    explain_query: Callable[[Node, str], Iterable[str]] | None = None
    #: Lines of `braid stats` about an m-op, by what it is called, from its detail.
    statistics: Mapping[str, Callable[[Detail], Iterable[str]]] = field(default_factory=dict)
    constraints: ConstraintUse | None = None
