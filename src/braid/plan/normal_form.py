"""The normal form: one form of expressions and operators for all queries that mean the same.

Queries share operators that have the same signature. People write the same condition in several
ways, so conditions come into one form before signatures are taken: `normal` does that for an
expression and `normal_node` for the operators of a query. Each rewrite changes one thing. Its
docstring has an example, which runs in the tests. A rewrite returns None if it has nothing to change.

Every rewrite keeps every answer, also with NULL (what is unknown stays unknown), NaN, signed zeros
and results that do not fit their type. So sums are not regrouped: in `(a + b) + c` another part can
overflow than in `a + (b + c)`.

Constants differ between the members of a template. A template looks the same whether its constants
are literals or parameters: the order of parts ignores constants (`order_of`), and no rewrite looks at
the value of a constant that a template may lift (`is_liftable`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from braid.algebra.documents import Documents
from braid.algebra.expressions import (
    TRUE,
    Call,
    Duration,
    Expression,
    Literal,
    Parameter,
    Ref,
    Source,
    transform,
)
from braid.algebra.nodes import (
    Extension,
    Iterate,
    Node,
    Project,
    Read,
    SameTime,
    Select,
    Union,
    walk_nodes,
)
from braid.algebra.nodes import Sequence as NextNode
from braid.algebra.relations import Detection, ToStream, rebuilt, walk_rows
from braid.algebra.templates import map_expressions
from braid.algebra.types import BOOLEAN, Kind, kind_of

Rewrite = Callable[[Call], Expression | None]

FALSE = Literal(False, BOOLEAN)

#: Each comparison with its operands exchanged, and what is true where it is false.
MIRRORED = {
    "lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne",
    "eq_null_safe": "eq_null_safe",
}  # fmt: skip
NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_DUAL = {"and": "or", "or": "and"}

#: Functions whose two operands may change places. Doubles keep the sign of a zero in a maximum.
_COMMUTATIVE = frozenset({"add", "mul"})
_EXTREMES = frozenset({"greatest", "least"})
_NUMBERS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.DURATION})


def is_liftable(literal: Literal) -> bool:
    """Whether a literal may differ between queries of one shape; NULL and truth values do not."""
    if literal.value is None:
        return False
    return kind_of(literal.type) not in (Kind.BOOLEAN, Kind.OPAQUE, Kind.NULL)


def is_constant(expression: Expression) -> bool:
    """Whether an expression is a constant of a query that is not NULL."""
    if isinstance(expression, Literal):
        return expression.value is not None
    return isinstance(expression, Parameter)


# ---- casts ----


def cast_to_own_type_to_operand(call: Call) -> Expression | None:
    """A cast that changes nothing goes.

    CAST(a AS BIGINT)  ->  a
    """
    if call.function == "cast" and call.args[0].type == call.type:
        return call.args[0]
    return None


def cast_of_widened_to_cast(call: Call) -> Expression | None:
    """A number that becomes wider before a cast is the same number.

    CAST(CAST(s AS BIGINT) AS DOUBLE)  ->  CAST(s AS DOUBLE)
    """
    if call.function != "cast":
        return None
    inner = _before_widening(call.args[0])
    if inner is None or kind_of(call.type) not in _CASTS_OF_NUMBERS[kind_of(inner.type)]:
        return None
    return Call("cast", (inner,), call.type)


def comparison_of_widened_to_comparison(call: Call) -> Expression | None:
    """Numbers of one type compare as they do when both are wider.

    CAST(s AS BIGINT) < CAST(r AS BIGINT)  ->  s < r
    """
    if call.function not in MIRRORED:
        return None
    left, right = map(_before_widening, call.args)
    if left is None or right is None or left.type != right.type:
        return None
    return replace(call, args=(left, right))


#: To which kinds a cast of a number gives the same, however wide the number is.
_CASTS_OF_NUMBERS = {
    Kind.INTEGER: (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.BOOLEAN),
    Kind.FLOAT: (Kind.FLOAT, Kind.INTEGER, Kind.BOOLEAN),
}


def _before_widening(expression: Expression) -> Expression | None:
    """The operand of a cast to a wider type of the same kind."""
    if not (isinstance(expression, Call) and expression.function == "cast"):
        return None
    (inner,) = expression.args
    if kind_of(inner.type) not in _CASTS_OF_NUMBERS:
        return None
    widens = kind_of(inner.type) is kind_of(expression.type)
    return inner if widens and inner.type.bit_width <= expression.type.bit_width else None


# ---- NOT ----


def not_of_not_to_operand(call: Call) -> Expression | None:
    """NOT (NOT b)  ->  b"""
    inner = _under_not(call, ("not",))
    return None if inner is None else inner.args[0]


def not_of_comparison_to_comparison(call: Call) -> Expression | None:
    """Values have a total order, with NaN, and NULL is unknown on both sides.

    NOT (a < v)  ->  a >= v
    """
    inner = _under_not(call, NEGATED)
    return None if inner is None else replace(inner, function=NEGATED[inner.function])


def not_of_junction_to_junction(call: Call) -> Expression | None:
    """NOT (b AND c)  ->  NOT b OR NOT c"""
    inner = _under_not(call, _DUAL)
    if inner is None:
        return None
    return Call(_DUAL[inner.function], tuple([_not(part) for part in inner.args]), BOOLEAN)


def not_of_truth_to_truth(call: Call) -> Expression | None:
    """NOT TRUE  ->  FALSE"""
    if call.function != "not" or not isinstance(call.args[0], Literal):
        return None
    value = call.args[0].value
    return Literal(None if value is None else not value, BOOLEAN)


def comparison_with_truth_to_operand(call: Call) -> Expression | None:
    """b <> TRUE  ->  NOT b"""
    if call.function not in ("eq", "ne"):
        return None
    for operand, truth in (call.args, call.args[::-1]):
        if isinstance(truth, Literal) and isinstance(truth.value, bool):
            return operand if truth.value is (call.function == "eq") else _not(operand)
    return None


def _under_not(call: Call, functions: Iterable[str]) -> Call | None:
    if call.function != "not":
        return None
    inner = call.args[0]
    return inner if isinstance(inner, Call) and inner.function in functions else None


def _not(expression: Expression) -> Expression:
    return Call("not", (expression,), BOOLEAN)


# ---- AND, OR, IN ----


def nested_junction_to_flat(call: Call) -> Expression | None:
    """b AND (c AND a < v)  ->  b AND c AND a < v"""
    if call.function not in _DUAL:
        return None
    parts: list[Expression] = []
    for part in call.args:
        nested = isinstance(part, Call) and part.function == call.function
        parts.extend(part.args if nested and isinstance(part, Call) else (part,))
    return _junction(call, parts)


def truth_in_junction_to_less(call: Call) -> Expression | None:
    """What is TRUE does not matter in AND, and FALSE is all that matters; in OR it is the reverse.

    b AND TRUE AND c  ->  b AND c
    """
    if call.function not in _DUAL:
        return None
    neutral, decisive = (TRUE, FALSE) if call.function == "and" else (FALSE, TRUE)
    if decisive in call.args:
        return decisive
    return _junction(call, [part for part in call.args if part != neutral])


def repeated_parts_to_one(call: Call) -> Expression | None:
    """b OR c OR b  ->  b OR c"""
    if call.function not in _DUAL:
        return None
    return _junction(call, list(dict.fromkeys(call.args)))


def equalities_to_membership(call: Call) -> Expression | None:
    """a = 5 OR b OR a = 7  ->  a IN (5, 7) OR b"""
    return _with_lists(call, _membership) if call.function == "or" else None


def inequalities_to_exclusion(call: Call) -> Expression | None:
    """a <> 5 AND b AND a NOT IN (7, 9)  ->  a NOT IN (5, 7, 9) AND b"""
    return _with_lists(call, _exclusion) if call.function == "and" else None


def membership_of_one_to_equality(call: Call) -> Expression | None:
    """a IN (5)  ->  a = 5"""
    if call.function != "in" or len(call.args) != 2:
        return None
    return Call("eq", call.args, BOOLEAN)


#: An expression and the constants that it is compared with.
_List = tuple[Expression, tuple[Expression, ...]]


def repeated_members_to_one(call: Call) -> Expression | None:
    """a IN (5, 7, 5)  ->  a IN (5, 7)"""
    values = tuple(dict.fromkeys(call.args[1:]))
    if call.function != "in" or len(values) == len(call.args) - 1:
        return None
    return Call("in", (call.args[0], *values), BOOLEAN)


def _with_lists(call: Call, list_of: Callable[[Expression], _List | None]) -> Expression | None:
    """The junction with one list for each expression that several parts compare with constants."""
    lists: dict[Expression, list[_List]] = {}
    for part in call.args:
        found = list_of(part)
        if found is not None:
            lists.setdefault(found[0], []).append(found)
    parts: dict[Expression, None] = {}
    for part in call.args:
        found = list_of(part)
        alike = [] if found is None else lists[found[0]]
        if len(alike) > 1:
            values = dict.fromkeys(value for _, own in alike for value in own)
            merged = Call("in", (alike[0][0], *values), BOOLEAN)
            part = merged if call.function == "or" else _not(merged)
        parts[part] = None
    return _junction(call, list(parts))


def _membership(part: Expression) -> _List | None:
    return _list_of(part) if isinstance(part, Call) and part.function in ("eq", "in") else None


def _exclusion(part: Expression) -> _List | None:
    if not isinstance(part, Call):
        return None
    compared = part if part.function == "ne" else _under_not(part, ("in",))
    return None if compared is None else _list_of(compared)


def _list_of(call: Call) -> _List | None:
    """What a call compares with constants of its own type that are not NULL."""
    operand, values = call.args[0], call.args[1:]
    if call.function != "in" and is_constant(operand):
        operand, values = values[0], (operand,)
    alike = all(is_constant(v) and v.type == operand.type for v in values)
    return (operand, values) if alike and not is_constant(operand) else None


def _junction(call: Call, parts: Sequence[Expression]) -> Expression | None:
    """The junction of other parts, None if they are the same."""
    if tuple(parts) == call.args and len(parts) > 1:
        return None
    if not parts:
        return TRUE if call.function == "and" else FALSE
    return parts[0] if len(parts) == 1 else Call(call.function, tuple(parts), BOOLEAN)


# ---- order ----


def operands_to_order(call: Call) -> Expression | None:
    """5 < a  ->  a > 5"""
    if call.function not in MIRRORED:
        return None
    is_symmetric = call.function == MIRRORED[call.function]
    left, right = map(_full_order_of, call.args) if is_symmetric else map(_shape_order, call.args)
    if left < right or (left == right and call.function not in ("gt", "ge")):
        return None
    return Call(MIRRORED[call.function], call.args[::-1], call.type)


def commuted_to_order(call: Call) -> Expression | None:
    """Two operands of `+` and `*` give the same in either order, also where the result does not fit.

    s * 2 + a  ->  a + s * 2
    """
    return _sorted(call, 0) if _commutes(call) else None


def _commutes(call: Call) -> bool:
    if call.function in _COMMUTATIVE:
        return call.args[0].type == call.args[1].type and kind_of(call.args[0].type) in _NUMBERS
    return call.function in _EXTREMES and kind_of(call.type) is not Kind.FLOAT


def exchangeable(call: Call) -> tuple[Expression, ...]:
    """The arguments of a call that may stand in any order."""
    if call.function == "in":
        return call.args[1:]
    is_symmetric = call.function in _DUAL or MIRRORED.get(call.function) == call.function
    return call.args if is_symmetric or _commutes(call) else ()


def parts_to_order(call: Call) -> Expression | None:
    """c AND a < v AND b  ->  b AND c AND a < v"""
    return _sorted(call, 0) if call.function in _DUAL else None


def members_to_order(call: Call) -> Expression | None:
    """a IN (7, 5)  ->  a IN (5, 7)"""
    return _sorted(call, 1) if call.function == "in" else None


def _sorted(call: Call, first: int) -> Expression | None:
    args = (*call.args[:first], *sorted(call.args[first:], key=_full_order_of))
    return None if args == call.args else Call(call.function, args, call.type, call.cost)


_RANK = {Source.SECOND: "0", Source.INPUT: "0", Source.FIRST: "1", Source.LAST: "2"}


@lru_cache(1 << 16)
def order_of(expression: Expression) -> str:
    """Where an expression stands among others: attributes first, constants last.

    Expressions that differ only in constants stand in the same place.
    """
    match expression:
        case Ref(source=source, name=name):
            return f"0{_RANK[source]}{name}"
        case Duration():
            return "1"
        case Call(function=function, args=args):
            return f"2{function}({','.join(map(order_of, args))}){expression.type}"
        case Literal() if not is_liftable(expression):
            return f"4{expression.value!r}{expression.type}"
    return f"3{expression.type}"


def _shape_order(expression: Expression) -> tuple[str, tuple[str, ...]]:
    return order_of(expression), ()


def _full_order_of(expression: Expression) -> tuple[str, tuple[str, ...]]:
    """The same, and literals by their values; parameters keep the order in which they stand."""
    parts = expression.parts if isinstance(expression, Call) else (expression,)
    values = tuple([repr(part.value) for part in parts if isinstance(part, Literal)])
    return order_of(expression), values


# ---- all of them ----

#: The rewrites in order, by the functions that they change.
_COMPARED: tuple[Rewrite, ...] = (
    comparison_of_widened_to_comparison,
    comparison_with_truth_to_operand,
    operands_to_order,
)
_JOINED: tuple[Rewrite, ...] = (
    nested_junction_to_flat,
    truth_in_junction_to_less,
    repeated_parts_to_one,
    equalities_to_membership,
    inequalities_to_exclusion,
    parts_to_order,
)
_BY_FUNCTION: dict[str, tuple[Rewrite, ...]] = {
    "cast": (cast_to_own_type_to_operand, cast_of_widened_to_cast),
    "not": (
        not_of_not_to_operand,
        not_of_comparison_to_comparison,
        not_of_junction_to_junction,
        not_of_truth_to_truth,
    ),
    "in": (repeated_members_to_one, membership_of_one_to_equality, members_to_order),
    **dict.fromkeys(MIRRORED, _COMPARED),
    **dict.fromkeys(_DUAL, _JOINED),
    **dict.fromkeys((*_COMMUTATIVE, *_EXTREMES), (commuted_to_order,)),
}
REWRITES = tuple(dict.fromkeys(rewrite for own in _BY_FUNCTION.values() for rewrite in own))


def normal(expression: Expression) -> Expression:
    """The normal form of an expression; the same object if it has it already."""
    return _normal(expression) if isinstance(expression, Call) else expression


@lru_cache(1 << 16)
def _normal(call: Call) -> Expression:
    args = tuple([normal(arg) for arg in call.args])
    if any(new is not old for new, old in zip(args, call.args, strict=True)):
        call = Call(call.function, args, call.type, call.cost)
    for rewrite in _BY_FUNCTION.get(call.function, ()):
        found = rewrite(call)
        if found is not None:
            return normal(found)
    return call


# ---- operators ----


@lru_cache(1 << 14)
def normal_node(node: Node) -> Node:
    """The normal form of a query's operators: of their expressions, and of unions.

    The predicate of DETECT stays as it is: it decides the order of the inputs, and so the packing and
    the bound that results show.
    """
    changed = node if _detects(node) else map_expressions(node, normal)
    has_unions = any(isinstance(part, Union) for part in walk_nodes(changed))
    return _unions_in_order(changed) if has_unions else changed


def _detects(node: Node) -> bool:
    streams = (part.relation for part in walk_nodes(node) if isinstance(part, ToStream))
    return any(isinstance(part, Detection) for rows in streams for part in walk_rows(rows))


def _unions_in_order(node: Node) -> Node:
    """A union has its inputs in one order, however they were nested.

    (B UNION C) UNION A  ->  (A UNION B) UNION C
    """
    match node:
        case Read():
            return node
        case Union():
            first, *others = sorted(map(_unions_in_order, _united(node)), key=_place_of)
            for other in others:
                first = Union(first, other)
            return first
        case Select() | Project() | SameTime():
            return replace(node, input=_unions_in_order(node.input))
        case NextNode() | Iterate():
            first, second = _unions_in_order(node.first), _unions_in_order(node.second)
            return replace(node, first=first, second=second)
        case ToStream() | Documents() | Extension():
            return node.over(tuple(map(_unions_in_order, node.inputs)))


def _united(node: Node) -> list[Node]:
    """The inputs of nested unions, left to right."""
    if not isinstance(node, Union):
        return [node]
    return [*_united(node.first), *_united(node.second)]


def _place_of(node: Node) -> tuple[str, str]:
    """Where a stream stands in a union: by what it is without its constants, then by these."""
    return node_order_of(node), "" if _has_parameter(node) else repr(node)


@lru_cache(1 << 14)
def _has_parameter(node: Node) -> bool:
    return "Parameter(" in repr(node)


@lru_cache(1 << 14)
def node_order_of(node: Node) -> str:
    """Where a stream stands among others; those that differ only in constants stand in one place."""
    below = ",".join(map(node_order_of, node.inputs))
    match node:
        case Read():
            return f"0{node.stream}"
        case Union():
            return f"1union({below})"
        case Select():
            return f"2select({below}){order_of(node.predicate)}"
        case Project():
            return f"2project({below}){_items_order_of(node.items)}"
        case NextNode():
            return f"2next({below}){order_of(node.predicate)}{node.names}"
        case Iterate():
            asked = ";".join(map(order_of, (node.predicate, node.rebind)))
            return f"2fold({below}){asked}{_items_order_of(node.aggregates)}"
        case SameTime():
            return f"2sametime({below}){map_expressions(_over_nothing(node), _masked)!r}"
        case ToStream():
            return f"2relation({below}){node.kind}{rebuilt(node.relation, _masked, _nothing)!r}"
    return f"3other({below}){map_expressions(_over_nothing(node), _masked)!r}"


def _items_order_of(items: Iterable[tuple[str, Expression]]) -> str:
    return ";".join(f"{name}={order_of(expression)}" for name, expression in items)


def _masked(expression: Expression) -> Expression:
    """An expression without its constants."""

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Parameter) or (isinstance(part, Literal) and is_liftable(part)):
            return Parameter(0, part.type)
        return None

    return transform(expression, change)


def _nothing(node: Node) -> Node:
    """A stream with the attributes of another, that stands for no stream."""
    return Read("", node.schema, node.unit)


def _over_nothing(node: SameTime | Documents | Extension) -> Node:
    if isinstance(node, SameTime):
        return replace(node, input=_nothing(node.input))
    return node.over(tuple(map(_nothing, node.inputs)))
