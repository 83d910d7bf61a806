"""The family of patterns: NEXT (sequences) and FOLD (iterations)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from braid.algebra import nodes as algebra
from braid.algebra.nodes import Node
from braid.operators.core.family import Family, MopKind
from braid.operators.pattern.automaton import describe, translate
from braid.operators.pattern.explain import step_box, step_lines
from braid.operators.pattern.planning import pattern
from braid.operators.pattern.rules import C_MU, C_SEQ, S_MU, S_SEQ, T_MU, T_SEQ
from braid.operators.pattern.spec import StepSpec

if TYPE_CHECKING:
    from braid.operators.core.base import Context, Logic


def _step(spec: StepSpec, context: Context, inputs: Sequence[str]) -> Logic:
    from braid.operators.pattern.logic import StepLogic

    return StepLogic(spec, context)


def _name(spec: StepSpec) -> str:
    return "iteration" if spec.iterates else "sequence"


def _query_lines(node: Node, name: str) -> Iterator[str]:
    """The automaton of a query."""
    yield describe(translate(node, name))


FAMILY = Family(
    "pattern",
    mops=(MopKind(StepSpec, _name, _step, step_lines, step_box),),
    rules=(S_SEQ, S_MU, T_SEQ, T_MU, C_SEQ, C_MU),
    switches={
        "an_index": "instances are found by the constants that their step asks of an event",
        "ai_index": "instances are found by the values that they have bound",
        "fr_index": "forward edges of a state with many are found by the constants that they ask",
    },
    plans={algebra.Sequence: pattern, algebra.Iterate: pattern},
    composites=frozenset({algebra.Sequence, algebra.Iterate}),
    explain_query=_query_lines,
)
