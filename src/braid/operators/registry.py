"""The registry of operator families: who plans a node, who builds a spec, who explains it.

Adding a family adds a folder here and one line to `NAMES`; see `docs/adding_an_operator.md`. Nothing
outside of a family's package names it, so a family without its line is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from braid.errors import ConfigError
from braid.operators.core.family import ConstraintUse, Detail, Family, Form, MopKind, Plan
from braid.plan.specs import Spec

if TYPE_CHECKING:
    from braid.algebra.nodes import Node
    from braid.operators.core.base import Context, Logic

#: The families, each after those that it is built on. The rules are tried in this order; of special
#: forms of an operator, those of later families are asked first.
NAMES = (
    "select",
    "project",
    "stream",
    "pattern",
    "group",
    "window",
    "join",
    "detect",
    "selection_join",
    "constraint_join",
    "to_stream",
    "documents",
)


class Registry:
    """What families say, by what they say it of."""

    def __init__(self, families: Iterable[Family]) -> None:
        self.families = tuple(families)
        self._kinds: dict[type[Spec], MopKind] = {
            kind.spec: kind for family in self.families for kind in family.mops
        }
        self._plans: dict[type, Plan] = {
            type_: plan for family in self.families for type_, plan in family.plans.items()
        }
        self._forms: dict[type, tuple[Form, ...]] = {}
        for family in self.families:
            for type_, form in family.forms.items():
                self._forms[type_] = (form, *self._forms.get(type_, ()))
        #: The nodes and relations that apply the selection and the picking of columns above them.
        self.composites = frozenset(type_ for f in self.families for type_ in f.composites)

    @cached_property
    def constraints(self) -> ConstraintUse | None:
        """What is done with declared constraints, if some family knows that."""
        return next((f.constraints for f in self.families if f.constraints is not None), None)

    def missing(self, what: str) -> ConfigError:
        """The error of a query that needs a family which is not there."""
        known = ", ".join(family.name for family in self.families)
        return ConfigError(
            "E330", f"no operator family is registered for {what}", f"families: {known}"
        )

    def plan_of(self, type_: type) -> Plan:
        """How to plan the nodes or relations of a type."""
        plan = self._plans.get(type_)
        if plan is None:
            raise self.missing(type_.__name__)
        return plan

    def forms_of(self, type_: type) -> tuple[Form, ...]:
        """The special forms of an operator, in the order in which they are asked."""
        return self._forms.get(type_, ())

    def kind_of(self, spec: Spec) -> MopKind:
        """What is known of the m-ops of a spec."""
        kind = self._kinds.get(type(spec))
        if kind is None:
            raise self.missing(type(spec).__name__)
        return kind

    def name_of(self, spec: Spec) -> str:
        """What `explain` and `stats` call the m-ops of a spec."""
        return self.kind_of(spec).name_of(spec)

    def build(self, spec: Spec, context: Context, inputs: Sequence[str] = ()) -> Logic:
        """The logic of a spec, without members; `inputs` are the channels that it reads."""
        return self.kind_of(spec).build(spec, context, inputs)

    def query_lines(self, node: Node, name: str) -> Iterator[str]:
        """What families say about one query."""
        for family in self.families:
            if family.explain_query is not None:
                yield from family.explain_query(node, name)

    def statistics_lines(self, kind: str, detail: Detail) -> Iterator[str]:
        """What families say in `braid stats` about an m-op that is called by a name."""
        for family in self.families:
            if kind in family.statistics:
                yield from family.statistics[kind](detail)


def _family(name: str) -> Family:
    family: Family = import_module(f"braid.operators.{name}.family").FAMILY
    assert family.name == name, f"{family.name} is in the package {name}"
    return family


REGISTRY = Registry(_family(name) for name in NAMES)
