"""What the m-op of documents does, as data; see `specs.py`.

A query over documents is planned here into *steps*: value joins between a leaf of each block, and
leaves that are only shown. Each leaf comes with the nodes above it that the query needs, its *chain*:
those that have a name or branch, since only they must agree between leaves; everything else of the
block has been checked when a leaf is found. Steps and chains, without any name or path, are the
template; paths, names and windows are data of the queries (R_T).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise, permutations

from braid.algebra.documents import FOLLOWED_BY, JOIN, RESULT, Block, Documents, ValueJoin
from braid.algebra.expressions import Expression, Literal, Parameter
from braid.algebra.schema import Schema
from braid.algebra.types import STRING
from braid.plan.predicates import Constant
from braid.plan.specs import Shape

#: What a step does (as in `kernels/documents_join.py`).
EQUALS, COMPARES, LEFT, RIGHT = 0, 1, 2, 3
#: How documents are paired.
FOLLOWED, NEAR, NEAR_MIRRORED, ALONE = 0, 1, 2, 3

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
#: So many joins are put into the order that gives the same template however they are written.
_CANONICAL = 5

FIRST_DOCUMENT, SECOND_DOCUMENT = "document_1", "document_2"


@dataclass(frozen=True)
class DocumentsSpec:
    """For each member: the matches of its block, or the pairs of matches of its two blocks.

    One for all queries over the same streams. `columns`: where the documents of each input are, and
    the column with their ids, if there is one. Channels differ in how many values they carry:
    `width`. `views`: whether what is joined by value is worked out once for all templates. `divided`:
    documents come by their values, and are joined by those that belong to this shard.
    """

    inputs: tuple[Shape, ...]
    columns: tuple[tuple[str, str | None], ...]
    views: bool = True
    divided: bool = False
    width: int = field(default=0, compare=False)

    @cached_property
    def output(self) -> Shape:
        values = (f"v{number}" for number in range(self.width))
        names = (FIRST_DOCUMENT, SECOND_DOCUMENT, RESULT, *values)
        return Shape(Schema.of((name, STRING) for name in names))

    @property
    def stateful(self) -> bool:
        return True

    def describe(self) -> str:
        return "documents"


@dataclass(frozen=True)
class DocumentsRecipe:
    """A query with its constants as parameters; `sources`: the input that each block reads.

    `wanted`: which of its columns somebody reads. `width`: the channel that they are put out on.
    """

    query: Documents
    sources: tuple[int, ...]
    wanted: frozenset[str]
    width: int


def constant_of(expression: Expression) -> Constant:
    """A name, a value or a window: a constant, or each member's own."""
    assert isinstance(expression, Literal | Parameter)
    return expression


def width_of(query: Documents) -> int:
    """How many values the channel of a query carries: few widths, so that there are few channels."""
    count = sum(len(block.variables) for block in query.blocks)
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


@dataclass(frozen=True)
class Template:
    """What queries have in common: each step with the slots of its leaves, and what is shown.

    `sides`: of each block, 0 if the earlier document is its, 1 if the one that comes is. `values`: for
    each value that is put out, its slot, or -1 if nobody reads it, and `blocks` the block that it is
    of; `roots` the slots of the blocks' roots, `shown` those of all that tells results apart. Where
    there are others, results that differ only in them are `distinct` no more.
    """

    pairing: int
    steps: tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...]
    slots: int
    sides: tuple[int, ...]
    values: tuple[int, ...]
    blocks: tuple[int, ...]
    roots: tuple[int, ...]
    shown: tuple[int, ...]
    result: bool
    width: int

    @property
    def distinct(self) -> bool:
        return len(self.shown) < self.slots


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
    """The blocks whose document may be the earlier one of a pair."""
    return {"": (), FOLLOWED_BY: (0,), JOIN: (0, 1)}[query.kind]


def shown_leaves(recipe: DocumentsRecipe) -> list[tuple[int, int]]:
    """Of earlier documents: block and node of each variable that is read, if no other lies below it."""
    query, found = recipe.query, []
    for number in earlier_blocks(query):
        block = query.blocks[number]
        kept = kept_nodes(block, {(j.first, j.second)[number] for j in query.joins})
        inner = {n for node in kept for n in block.path(node)[:-1]}
        found += [(number, n) for v, n in block.variables if v in recipe.wanted and n not in inner]
    return found


def keeps_documents(recipe: DocumentsRecipe) -> bool:
    """Whether more is shown of earlier documents than values of leaves: then their text is kept."""
    earlier = earlier_blocks(recipe.query)
    variables = [v for number in earlier for v, _ in recipe.query.blocks[number].variables]
    wanted = sum(v in recipe.wanted for v in variables)
    has_result = bool(earlier) and RESULT in recipe.wanted
    return has_result or len(shown_leaves(recipe)) < wanted


@lru_cache(4096)
def plans_of(recipe: DocumentsRecipe) -> tuple[DocumentPlan, ...]:
    """How a query is evaluated; a JOIN both ways, since either document may come first."""
    query = recipe.query
    if not query.kind:
        return (_plan(recipe, ALONE, (1,)),)
    if query.kind == FOLLOWED_BY:
        return (_plan(recipe, FOLLOWED, (0, 1)),)
    assert query.kind == JOIN
    return (_plan(recipe, NEAR, (0, 1)), _plan(recipe, NEAR_MIRRORED, (1, 0)))


def _plan(recipe: DocumentsRecipe, pairing: int, sides: tuple[int, ...]) -> DocumentPlan:
    """`sides`: of each block, 0 if it is matched by the earlier document, 1 by the one that comes."""
    query = recipe.query
    joined: list[set[int]] = [set(), set()]
    for join in query.joins:
        joined[0].add(join.first)
        joined[1].add(join.second)
    kept = [kept_nodes(block, joined[n]) for n, block in enumerate(query.blocks)]

    def leaf(block: int, number: int) -> Leaf:
        path = reversed(query.blocks[block].path(number))
        return Leaf(block, tuple(n for n in path if n in kept[block]))

    def step(join: ValueJoin) -> Step:
        first, second = leaf(0, join.first), leaf(1, join.second)
        operator = join.operator
        if sides[0] == 1:
            first, second, operator = second, first, MIRRORED[operator]
        kind = EQUALS if operator == "=" else COMPARES
        return Step(kind, OPERATORS.index(operator), first, second)

    steps = sorted((step(join) for join in query.joins), key=lambda s: (s.kind, s.operator))
    equal = [s for s in steps if s.kind == EQUALS]
    rest = [s for s in steps if s.kind != EQUALS]
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
    ordered = [*_canonical(equal), *rest]
    slots, numbered = _numbered(ordered)
    return DocumentPlan(_template(recipe, pairing, sides, slots, numbered), tuple(ordered))


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
    query = recipe.query
    values = tuple(
        slots[number, node] if name in recipe.wanted else -1
        for number, block in enumerate(query.blocks)
        for name, node in block.variables
    )
    shown = {(number, node) for number, block in enumerate(query.blocks) for node in block.shown}
    return Template(
        pairing,
        numbered,
        len(slots),
        sides,
        values,
        tuple(n for n, block in enumerate(query.blocks) for _ in block.variables),
        tuple(slots[number, block.root] for number, block in enumerate(query.blocks)),
        tuple(sorted(slots[place] for place in shown)),
        RESULT in recipe.wanted,
        recipe.width,
    )
