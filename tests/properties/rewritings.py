"""Random rewritings: the same query as somebody else would write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from braid.algebra.expressions import (
    Call,
    Expression,
    Literal,
    Parameter,
    Ref,
    Source,
    conjunction,
    conjuncts,
)
from braid.algebra.functions import is_vector
from braid.algebra.nodes import Iterate, Node, Project, Read, SameTime, Select, Sequence, Union
from braid.algebra.relations import ToStream
from braid.algebra.templates import map_expressions
from braid.algebra.types import BOOLEAN, Kind, kind_of
from braid.plan.normal_form import MIRRORED, NEGATED, is_constant, is_liftable
from tests.properties.expressions import Draw, call

TRUE, FALSE = Literal(True, BOOLEAN), Literal(False, BOOLEAN)
_OTHER = {"and": "or", "or": "and"}
_NEUTRAL = {"and": TRUE, "or": FALSE}


def rewritten(draw: Draw, expression: Expression, repeats: bool = True) -> Expression:
    """An expression that means the same. `repeats`: parts of AND and OR may stand there twice."""
    if isinstance(expression, Call) and not is_vector(expression):
        args = tuple(
            arg if isinstance(arg, Literal) else rewritten(draw, arg, repeats)
            for arg in expression.args
        )
        expression = replace(expression, args=args)
        for change in _changes_of(expression, repeats):
            if draw(st.integers(0, 2)) == 0:
                assert isinstance(expression, Call)
                expression = change(draw, expression)
                break
    if isinstance(expression, Literal) or draw(st.integers(0, 7)):
        return expression
    return _wrapped(draw, expression)


def _wrapped(draw: Draw, expression: Expression) -> Expression:
    """NOT twice, a comparison with a truth value, a cast that changes nothing."""
    if kind_of(expression.type) in (Kind.OPAQUE, Kind.NULL):
        return expression
    if expression.type == BOOLEAN and draw(st.booleans()):
        no = call("not", expression)
        return draw(
            st.sampled_from([call("not", no), call("eq", TRUE, expression), call("ne", no, TRUE)])
        )
    return call("cast", expression, type_=expression.type)


Change = Callable[[Draw, Call], Expression]


def _changes_of(found: Call, repeats: bool) -> list[Change]:
    """What can be done with a call."""
    changes: list[Change] = []
    if found.function in _OTHER:
        changes += [_in_another_order, _nested, _with_less, _by_de_morgan]
        changes += [_repeated] if repeats else []
    if found.function in NEGATED:
        changes.append(_as_negation)
    if found.function in MIRRORED:
        changes.append(_mirrored)
    if found.function == "eq" and _compares_with_constant(found):
        changes.append(lambda draw, equal: call("in", *equal.args))
    if found.function == "in" and all(is_constant(value) for value in found.args[1:]):
        changes.append(_as_equalities)
    exact = found.function in ("greatest", "least") and kind_of(found.type) is not Kind.FLOAT
    if exact or (found.function in ("add", "mul") and found.args[0].type == found.args[1].type):
        changes.append(lambda draw, sum_: replace(sum_, args=sum_.args[::-1]))
    return changes


def _compares_with_constant(equal: Call) -> bool:
    left, right = equal.args
    return is_constant(right) and left.type == right.type and not is_constant(left)


def _in_another_order(draw: Draw, junction: Call) -> Expression:
    return replace(junction, args=tuple(draw(st.permutations(junction.args))))


def _nested(draw: Draw, junction: Call) -> Expression:
    cut = draw(st.integers(1, len(junction.args)))
    first = call(junction.function, *junction.args[:cut])
    return call(junction.function, *junction.args[cut:], first)


def _with_less(draw: Draw, junction: Call) -> Expression:
    return call(junction.function, _NEUTRAL[junction.function], *junction.args)


def _repeated(draw: Draw, junction: Call) -> Expression:
    return call(junction.function, *junction.args, draw(st.sampled_from(junction.args)))


def _by_de_morgan(draw: Draw, junction: Call) -> Expression:
    return call("not", call(_OTHER[junction.function], *(call("not", a) for a in junction.args)))


def _as_negation(draw: Draw, comparison: Call) -> Expression:
    return call("not", call(NEGATED[comparison.function], *comparison.args))


def _mirrored(draw: Draw, comparison: Call) -> Expression:
    return call(MIRRORED[comparison.function], *comparison.args[::-1])


def _as_equalities(draw: Draw, membership: Call) -> Expression:
    operand, *values = membership.args
    equalities = [call("eq", operand, value) for value in draw(st.permutations(values))]
    return call("or", *equalities)


# ---- operators ----


def rewritten_node(draw: Draw, node: Node, repeats: bool = True) -> Node:
    """A query that means the same."""
    changed = map_expressions(node, lambda e: rewritten(draw, e, repeats))
    return _moved(draw, changed)


def _moved(draw: Draw, node: Node) -> Node:
    """FILTER over FILTER for AND, the inputs of unions exchanged, a FILTER below a second input."""
    match node:
        case Select(input=below, predicate=predicate):
            below, parts = _moved(draw, below), conjuncts(predicate)
            if len(parts) > 1 and draw(st.booleans()):
                cut = draw(st.integers(1, len(parts) - 1))
                below, parts = Select(below, conjunction(parts[cut:])), parts[:cut]
            return Select(below, conjunction(parts))
        case Union(first=first, second=second):
            sides = draw(st.permutations([_moved(draw, first), _moved(draw, second)]))
            if isinstance(sides[0], Union) and draw(st.booleans()):
                return Union(sides[0].first, Union(sides[0].second, sides[1]))
            return Union(*sides)
        case Sequence(first=first, second=second, predicate=predicate):
            first, second = _moved(draw, first), _moved(draw, second)
            parts = conjuncts(predicate)
            early = [part for part in parts if _is_of_second(part)]
            if early and draw(st.booleans()):
                chosen = draw(st.sampled_from(early))
                second = Select(second, _of_input(chosen))
                predicate = conjunction(tuple(part for part in parts if part is not chosen))
            return replace(node, first=first, second=second, predicate=predicate)
        case Iterate(first=first, second=second):
            return replace(node, first=_moved(draw, first), second=_moved(draw, second))
        case Project(input=below) | SameTime(input=below):
            return replace(node, input=_moved(draw, below))
        case ToStream():
            return node.over(tuple(_moved(draw, below) for below in node.inputs))
    return node


def _is_of_second(part: Expression) -> bool:
    """Whether a conjunct looks at the second event alone."""
    leaves = [e for e in _leaves(part) if not isinstance(e, Literal)]
    return bool(leaves) and all(
        isinstance(leaf, Ref) and leaf.source is Source.SECOND for leaf in leaves
    )


def _leaves(expression: Expression) -> list[Expression]:
    if not isinstance(expression, Call):
        return [expression]
    return [leaf for arg in expression.args for leaf in _leaves(arg)]


def _of_input(expression: Expression) -> Expression:
    if isinstance(expression, Ref):
        return replace(expression, source=Source.INPUT)
    if isinstance(expression, Call):
        return replace(expression, args=tuple(map(_of_input, expression.args)))
    return expression


# ---- templates ----


def lifted(node: Node) -> tuple[Node, tuple[Literal, ...]]:
    """The query as a template, and its constants: those that may differ between members."""
    constants: list[Literal] = []

    def change(expression: Expression) -> Expression:
        if isinstance(expression, Literal) and is_liftable(expression):
            constants.append(expression)
            return Parameter(len(constants) - 1, expression.type)
        if isinstance(expression, Call) and not is_vector(expression):
            pinned = expression.args[1:] if expression.function == "round" else ()
            args = tuple(a if a in pinned else change(a) for a in expression.args)
            return replace(expression, args=args)
        return expression

    made = map_expressions(_without_horizons(node), change)
    return made, tuple(constants)


def _without_horizons(node: Node) -> Node:
    """A template has none: its members have them by their constants."""
    match node:
        case Sequence() | Iterate():
            first, second = _without_horizons(node.first), _without_horizons(node.second)
            return replace(node, first=first, second=second, horizon=None)
        case Union():
            first, second = _without_horizons(node.first), _without_horizons(node.second)
            return replace(node, first=first, second=second)
        case Select() | Project() | SameTime():
            return replace(node, input=_without_horizons(node.input))
        case Read():
            return node
    return node.over(tuple(map(_without_horizons, node.inputs)))
