"""What the m-op of documents does, as data; see `specs.py`.

A query over documents is planned here into *steps*: value joins between a leaf of each block, and
leaves that are only shown. Each leaf comes with the nodes above it that the query needs, its *chain*:
those that have a name or branch, since only they must agree between leaves; everything else of the
block has been checked when a leaf is found. Steps and chains, without any name or path, are the
template; paths, names and windows are data of the queries (R_T).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise, permutations

from braid.algebra.documents import (
    FOLLOWED_BY,
    JOIN,
    PRECEDED_BY,
    RESULT,
    Block,
    Documents,
    ValueJoin,
    subtree_of,
)
from braid.algebra.expressions import Expression, Literal, Parameter
from braid.algebra.schema import Schema
from braid.algebra.types import BIGINT, STRING
from braid.operators.documents.stages import COPY, DOCUMENT, PART, VALUE, Carried, View, view_of
from braid.plan.predicates import Constant
from braid.plan.routes import Recipe
from braid.plan.specs import Shape, Spec

#: What a step does (as in `operators/documents/kernels/join.py`).
EQUALS, COMPARES, LEFT, RIGHT = 0, 1, 2, 3
#: How documents are paired.
FOLLOWED, NEAR, NEAR_MIRRORED, ALONE = 0, 1, 2, 3

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
DIFFERENT, _BELOW, _ABOVE = 1, (2, 3), (4, 5)
MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
#: So many joins are put into the order that gives the same template however they are written.
_CANONICAL = 5

FIRST_DOCUMENT, SECOND_DOCUMENT = "document_1", "document_2"
#: Rows that go on to another join: those that show the same have one number.
GROUP = "group"

#: What a value that is put out is: nothing, the id of a document, a node as a document, a node's
#: value, a value of a row, a node as the content of an element.
NOTHING, NAME, SHOWN, TEXT, OF_ROW, CONTENT = -1, 0, 1, 2, 3, 4


@dataclass(frozen=True)
class DocumentsSpec(Spec):
    """For each member: the matches of its block, or the pairs of matches of its two blocks.

    One for all queries over the same streams. `columns`: where the documents of each input are, and
    the column with their ids, if there is one; None for rows of the join before. Channels differ in
    how many values they carry, `width`, and in whether they go on to another join, `partial`.
    `names`: the channel that each input is, for messages; empty for rows of the join before.
    `views`: whether what is joined by value is worked out once for all templates; `in_order`: whether
    values that are compared by order are kept in order. `divided`: documents come by their values, and
    are joined by those that belong to this shard.
    """

    inputs: tuple[Shape, ...]
    columns: tuple[tuple[str, str | None] | None, ...]
    views: bool = True
    in_order: bool = True
    divided: bool = False
    names: tuple[str, ...] = field(default=(), compare=False)
    width: int = field(default=0, compare=False)
    partial: bool = field(default=False, compare=False)

    @cached_property
    def output(self) -> Shape:
        values = [(f"v{number}", STRING) for number in range(self.width)]
        if self.partial:
            return Shape(Schema.of([(GROUP, BIGINT), *values]))
        names = (FIRST_DOCUMENT, SECOND_DOCUMENT, RESULT)
        return Shape(Schema.of([*((name, STRING) for name in names), *values]))

    @property
    def stateful(self) -> bool:
        return True

    def describe(self) -> str:
        return "documents"


@dataclass(frozen=True)
class DocumentsRecipe(Recipe):
    """A query with its constants as parameters, up to the join that the m-op does.

    `sources`: the input that each side of the join reads. `wanted`: which of its columns somebody
    reads. `width`: the channel that they are put out on. `bound`: what the rows of the first input
    hold, if that is the join before. `handed`: what goes on to the next join, if there is one.
    """

    query: Documents
    sources: tuple[int, ...]
    wanted: frozenset[str]
    width: int
    bound: tuple[Carried, ...] | None = None
    handed: tuple[Carried, ...] | None = None

    @property
    def view(self) -> View:
        return view_of(self.query, self.bound, self.handed)


def constant_of(expression: Expression) -> Constant:
    """A name, a value or a window: a constant, or each member's own."""
    assert isinstance(expression, Literal | Parameter)
    return expression


def final_values(query: Documents) -> list[tuple[str, Carried]]:
    """The columns of a query besides the first two documents and the result, and what they are."""
    found = [
        (name, Carried(VALUE, number, node))
        for number, block in enumerate(query.blocks)
        for name, node in block.variables
    ]
    more = range(2, len(query.blocks))
    found += [(query.document(number), Carried(DOCUMENT, number)) for number in more]
    copies = [
        (subtree_of(name), Carried(COPY, number, node))
        for number, block in enumerate(query.blocks)
        for name, node in block.variables
        if name in query.copied
    ]
    return [*found, *copies]


def width_of(count: int) -> int:
    """How many values a channel carries: few widths, so that there are few channels."""
    width = 4
    while width < count:
        width *= 2
    return width


@dataclass(frozen=True)
class Leaf:
    """A node of a block and the kept nodes above it, from the leaf up."""

    block: int
    chain: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """`left` is of the earlier document, `right` of the one that comes."""

    kind: int
    operator: int
    left: Leaf | None
    right: Leaf | None


#: A value that is put out: what it is, the side that it is of, and its slot or its place in a row.
Column = tuple[int, int, int]


@dataclass(frozen=True)
class Template:
    """What queries have in common: each step with the slots of its leaves, and what is shown.

    `sides`: of each block, 0 if the earlier document is its, 1 if the one that comes is. `names`: the
    ids of the first two documents; `parts`: what the result is made of, if somebody reads it. `shown`:
    the slots of all that tells results apart; where there are others, results that differ only in
    them are `distinct` no more. `row`: the slot of the row of the join before, -1 if there is none.
    `told`: what tells rows apart for the one who reads the results in the end. `ordered`: how many
    comparisons at the beginning are looked up in the order of values: one, or two that are a band;
    `beside`: they come right behind a first step by equal values.
    """

    pairing: int
    steps: tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...]
    slots: int
    sides: tuple[int, ...]
    names: tuple[Column, ...]
    parts: tuple[Column, ...]
    values: tuple[Column, ...]
    shown: tuple[int, ...]
    told: tuple[int, ...]
    row: int
    distinct: bool
    ordered: int
    beside: bool
    width: int
    partial: bool

    @property
    def port(self) -> str:
        """The channel that its results are put out on."""
        return port_of(self.width, self.partial)


def port_of(width: int, partial: bool) -> str:
    return f"{width}{'+' if partial else ''}"


@dataclass(frozen=True)
class DocumentPlan:
    """A template, and the leaves of a query in the order of its steps."""

    template: Template
    steps: tuple[Step, ...]


def kept_nodes(block: Block, joined: set[int]) -> set[int]:
    """The nodes of a block that a query needs: joined, shown, and where ways to these part."""
    needed = joined | set(block.shown)
    below: dict[int, set[int]] = {}
    for number in needed:
        path = block.path(number)
        for above, child in pairwise(path):
            below.setdefault(above, set()).add(child)
    return needed | {number for number, children in below.items() if len(children) > 1}


def earlier_blocks(query: Documents) -> tuple[int, ...]:
    """The blocks whose document may be the earlier one of a pair, of a query with one join or none."""
    return {(): (), (FOLLOWED_BY,): (0,), (JOIN,): (0, 1)}[query.kinds]


def shown_leaves(recipe: DocumentsRecipe) -> list[tuple[int, int]]:
    """Of earlier documents: block and node of each variable that is read, if no other lies below it."""
    query, found = recipe.query, []
    for number in earlier_blocks(query):
        block = query.blocks[number]
        kept = kept_nodes(block, {(j.first, j.second)[number] for j in query.joins})
        inner = {n for node in kept for n in block.path(node)[:-1]}
        found += [(number, n) for v, n in block.variables if v in recipe.wanted and n not in inner]
    return found


def is_one_of_several(recipe: DocumentsRecipe) -> bool:
    """Whether it is one of several joins of a query."""
    return recipe.bound is not None or recipe.handed is not None


def keeps_documents(recipe: DocumentsRecipe) -> bool:
    """Whether more is shown of earlier documents than values of leaves: then their text is kept."""
    if is_one_of_several(recipe):
        return True
    earlier = earlier_blocks(recipe.query)
    variables = [v for number in earlier for v, _ in recipe.query.blocks[number].variables]
    wanted = sum(v in recipe.wanted for v in variables)
    copied = any(subtree_of(v) in recipe.wanted for v in variables)
    has_result = bool(earlier) and RESULT in recipe.wanted
    return has_result or copied or len(shown_leaves(recipe)) < wanted


@lru_cache(4096)
def plans_of(recipe: DocumentsRecipe, in_order: bool = True) -> tuple[DocumentPlan, ...]:
    """How a query is evaluated; a JOIN both ways, since either document may come first.

    `in_order`: whether values are looked up in their order.
    """
    kind = recipe.view.kind
    if not kind:
        return (_plan(recipe, ALONE, (1,), in_order),)
    if kind == FOLLOWED_BY:
        return (_plan(recipe, FOLLOWED, (0, 1), in_order),)
    if kind == PRECEDED_BY:
        return (_plan(recipe, FOLLOWED, (1, 0), in_order),)
    assert kind == JOIN
    ways = ((NEAR, (0, 1)), (NEAR_MIRRORED, (1, 0)))
    return tuple(_plan(recipe, pairing, sides, in_order) for pairing, sides in ways)


def _plan(
    recipe: DocumentsRecipe, pairing: int, sides: tuple[int, ...], in_order: bool
) -> DocumentPlan:
    """`sides`: of each block, 0 if it is matched by the earlier document, 1 by the one that comes."""
    view = recipe.view
    kept = [kept_nodes(side.block, set(side.needed)) for side in view.sides]

    def leaf(block: int, number: int) -> Leaf:
        path = reversed(view.sides[block].block.path(number))
        return Leaf(block, tuple(n for n in path if n in kept[block]))

    def step(join: ValueJoin) -> Step:
        first, second = leaf(0, join.first), leaf(1, join.second)
        operator = join.operator
        if sides[0] == 1:
            first, second, operator = second, first, MIRRORED[operator]
        kind = EQUALS if operator == "=" else COMPARES
        return Step(kind, OPERATORS.index(operator), first, second)

    steps = sorted((step(join) for join in view.joins), key=lambda s: (s.kind, s.operator))
    equal = [s for s in steps if s.kind == EQUALS]
    rest, ordered_first = _by_order([s for s in steps if s.kind != EQUALS])
    ordered_first = ordered_first if in_order else 0
    covered = {
        (leaf_.block, n) for s in steps for leaf_ in (s.left, s.right) if leaf_ for n in leaf_.chain
    }
    for number, nodes in enumerate(kept):
        for node in sorted(nodes, reverse=True):
            if (number, node) not in covered:
                free = leaf(number, node)
                covered |= {(number, n) for n in free.chain}
                early = sides[number] == 0
                rest.append(
                    Step(
                        LEFT if early else RIGHT,
                        0,
                        free if early else None,
                        None if early else free,
                    )
                )
    equal = _canonical(equal)
    beside = bool(equal and ordered_first)
    if beside:
        # One equality finds documents, in their order; the others are asked of what that gives.
        asked = [replace(step, kind=COMPARES) for step in equal[1:]]
        rest[ordered_first:ordered_first] = asked
        equal = equal[:1]
    ordered = [*equal, *rest]
    slots, numbered = _numbered(ordered)
    template = _template(recipe, pairing, sides, slots, numbered)
    template = replace(template, ordered=ordered_first, beside=beside)
    return DocumentPlan(template, tuple(ordered))


def _by_order(steps: list[Step]) -> tuple[list[Step], int]:
    """Comparisons by order before those by difference, and two that are a band before all.

    A band is above one value of the document that comes and below another.
    """
    found = sorted(steps, key=lambda s: (s.operator == DIFFERENT, s.operator))
    below = [s for s in found if s.operator in _BELOW]
    for first in below:
        for second in found:
            if second.operator in _ABOVE and second.left == first.left:
                return [first, second, *(s for s in found if s not in (first, second))], 2
    return found, 1 if found and found[0].operator != DIFFERENT else 0


def _canonical(steps: list[Step]) -> list[Step]:
    """The order of joins whose template is the same for all queries that are alike."""
    if len(steps) > _CANONICAL:
        return steps
    return list(min(permutations(steps), key=lambda order: _numbered(tuple(order))[1], default=()))


def _numbered(
    steps: list[Step] | tuple[Step, ...],
) -> tuple[
    dict[tuple[int, int], int], tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...]
]:
    """A slot for each node that the steps bind, in the order in which they do."""
    slots: dict[tuple[int, int], int] = {}

    def numbers(leaf: Leaf | None) -> tuple[int, ...]:
        if leaf is None:
            return ()
        return tuple(slots.setdefault((leaf.block, n), len(slots)) for n in leaf.chain)

    return slots, tuple((s.kind, s.operator, numbers(s.left), numbers(s.right)) for s in steps)


def _template(
    recipe: DocumentsRecipe,
    pairing: int,
    sides: tuple[int, ...],
    slots: dict[tuple[int, int], int],
    numbered: tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...],
) -> Template:
    view, query = recipe.view, recipe.query
    place = {side.number: number for number, side in enumerate(view.sides) if side.number >= 0}

    def column(value: Carried) -> Column:
        side = place.get(value.block)
        if side is None:
            bound = recipe.bound or ()
            return (OF_ROW, 0, bound.index(value)) if value in bound else (NOTHING, 0, 0)
        if value.what == DOCUMENT:
            return (NAME, side, 0)
        if value.what == PART:
            return (SHOWN, side, slots[side, view.sides[side].block.root])
        if value.what == COPY:
            return (CONTENT, side, slots[side, value.node])
        return (TEXT, side, slots[side, value.node])

    blocks = range(len(query.blocks))
    names = tuple(column(Carried(DOCUMENT, n)) for n in blocks[:2])
    parts: tuple[Column, ...] = ()
    if recipe.handed is not None:
        values = tuple(column(value) for value in recipe.handed)
    else:
        found = ((name in recipe.wanted, value) for name, value in final_values(query))
        values = tuple(column(v) if wanted else (NOTHING, 0, 0) for wanted, v in found)
        if RESULT in recipe.wanted:
            parts = tuple(column(Carried(PART, number)) for number in query.written)
    told, shown = _apart(recipe, slots)
    row = slots[0, 0] if view.has_rows else -1
    own = {slot for (side, _), slot in slots.items() if view.sides[side].number >= 0}
    distinct = bool(own - shown) or (view.several and recipe.handed is None)
    return Template(
        pairing, numbered, len(slots), sides, names, parts, values, tuple(sorted(shown)),
        tuple(sorted(told)), row, distinct, 0, False, recipe.width, recipe.handed is not None,
    )  # fmt: skip


def _apart(recipe: DocumentsRecipe, slots: dict[tuple[int, int], int]) -> tuple[set[int], set[int]]:
    """What tells results apart for who reads them in the end, and what tells rows apart here."""
    told, shown = set(), set()
    for number, side in enumerate(recipe.view.sides):
        if side.number < 0:
            if not recipe.view.several:
                told.add(slots[number, 0])
            elif recipe.handed is not None:
                shown.add(slots[number, 0])
            continue
        told |= {slots[number, node] for node in side.block.shown}
        for value in recipe.handed or ():
            if value.what == VALUE and value.block == side.number:
                shown.add(slots[number, value.node])
    return told, shown | told
