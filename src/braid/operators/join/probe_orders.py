"""How a join looks for combinations: which columns are equal, and in which order inputs are probed.

Columns that equalities link, directly or through others, are one *key* of the join. So with
A.k = B.k AND B.k = C.k a row of A can be looked up in C, and every input that a key has been
bound in helps to find the rest. A NULL in a key that some plain equality asks for joins nothing:
such rows are not even held. Nor are rows in which two columns of the same key differ. Where no key
leads to an input, a band may (`bands.py`).

For each input that drives, the others are put in order by how many wanted rows a probe of them
has found so far, those that a bound key leads to first. Any order gives the same sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from braid.algebra.expressions import (
    Call,
    Expression,
    Literal,
    Parameter,
    Ref,
    Source,
    conjunction,
    conjuncts,
    refs,
    transform,
    walk,
)
from braid.algebra.joins import inputs_of
from braid.algebra.types import BOOLEAN
from braid.operators.join.bands import Band
from braid.operators.join.kernels.store import IN_BAND
from braid.operators.join.spec import JoinSpec
from braid.plan.layout import Layout

#: An input, and the keys by which it is looked up.
Lookup = tuple[int, tuple[int, ...]]

#: Rounds after which a rate that was not measured again is forgotten.
_FORGET_AFTER = 8


@dataclass(frozen=True)
class Key:
    """Columns that must be equal: those of each input."""

    columns: tuple[tuple[int, ...], ...]
    floating: bool
    null_safe: bool
    #: The number of the band, if the columns need not be equal but are in one.
    band: int | None = None

    @property
    def how(self) -> int:
        """How its columns are compared."""
        return int(self.floating) + (0 if self.band is None else int(IN_BAND))

    def checks(self, number: int) -> Iterator[int]:
        """What it asks of rows of an input by themselves, four words each: a column, another one that
        must equal it or -1, whether they are floats, whether NULL is nothing."""
        columns = self.columns[number]
        for column, other in zip(columns, (-1, *columns), strict=False):
            if other >= 0 or not self.null_safe:
                yield from (column, other, int(self.floating), int(not self.null_safe))


@dataclass(frozen=True)
class Probe:
    """One step of an order: an input, looked up by keys that are bound by then."""

    lookup: Lookup
    #: Where the value of each key is taken from: input and column.
    sources: tuple[tuple[int, int], ...]
    #: The inputs that are bound before it, the driving one included.
    bound: frozenset[int]


def keys_of(spec: JoinSpec) -> tuple[Key, ...]:
    groups: list[set[tuple[int, str]]] = []
    for e in spec.equalities:
        pair = {(e.first, e.first_column), (e.second, e.second_column)}
        touched = [g for g in groups if g & pair]
        groups = [g for g in groups if g not in touched] + [pair.union(*touched)]
    keys = []
    for group in groups:
        linked = [e for e in spec.equalities if (e.first, e.first_column) in group]
        columns = tuple(
            tuple(sorted(shape.layout.column(name) for i, name in group if i == number))
            for number, shape in enumerate(spec.inputs)
        )
        floating = any(e.floating for e in linked)
        keys.append(Key(columns, floating, all(e.null_safe for e in linked)))
    return tuple(keys)


def band_keys(spec: JoinSpec, bands: Sequence[Band]) -> Iterator[Key]:
    """Bands as keys, to be used where no equality leads to an input."""
    for number, band in enumerate(bands):
        places = dict((band.first, band.second))
        columns = tuple(
            (shape.layout.column(places[i]),) if i in places else ()
            for i, shape in enumerate(spec.inputs)
        )
        yield Key(columns, band.floating, False, number)


class Orders:
    """The order of probes for each driving input, and what is known of how selective they are."""

    def __init__(self, keys: Sequence[Key], inputs: int) -> None:
        self._keys = keys
        self._inputs = inputs
        self._rates: dict[Lookup, tuple[float, float, int]] = {}
        self._round = 0

    def measured(self, lookup: Lookup, probes: int, wanted: int) -> None:
        """So many rows were wanted of those that so many probes found; older figures fade."""
        if probes:
            before = self._rates.get(lookup, (0.0, 0.0, 0))
            self._rates[lookup] = (
                before[0] / 2 + probes,
                before[1] / 2 + wanted,
                self._round,
            )

    def rate(self, lookup: Lookup) -> float | None:
        """Wanted rows for each probe, if it is known."""
        known = self._rates.get(lookup)
        return None if known is None else known[1] / known[0]

    def chosen(self, counts: Sequence[int]) -> list[list[Probe]]:
        """An order for each driving input; `counts`: rows held of each."""
        self._round += 1
        old = self._round - _FORGET_AFTER
        self._rates = {k: v for k, v in self._rates.items() if v[2] >= old}
        return [self._order(driver, counts) for driver in range(self._inputs)]

    def _order(self, driver: int, counts: Sequence[int]) -> list[Probe]:
        bound = [driver]
        order = []
        while len(bound) < self._inputs:
            lookups = [(i, self._leading(bound, i)) for i in range(self._inputs) if i not in bound]
            best = min(lookups, key=lambda lookup: self._cost(lookup, counts))
            sources = tuple(self._source(k, bound) for k in best[1])
            order.append(Probe(best, sources, frozenset(bound)))
            bound.append(best[0])
        return order

    def _leading(self, bound: Sequence[int], to: int) -> tuple[int, ...]:
        """The keys that lead to an input: all equalities, or else a band."""
        found = [k for k in range(len(self._keys)) if self._leads(k, bound, to)]
        equal = tuple(k for k in found if self._keys[k].band is None)
        return equal or tuple(found[:1])

    def _leads(self, key: int, bound: Sequence[int], to: int) -> bool:
        columns = self._keys[key].columns
        return bool(columns[to]) and any(columns[i] for i in bound)

    def _source(self, key: int, bound: Sequence[int]) -> tuple[int, int]:
        columns = self._keys[key].columns
        return next((i, columns[i][0]) for i in bound if columns[i])

    def _cost(self, lookup: Lookup, counts: Sequence[int]) -> tuple[bool, float, int]:
        number, keys = lookup
        rate = self.rate(lookup)
        if rate is None:
            # Nothing is known: be hopeful, so that it is tried.
            rate = 0.5 if keys else float(counts[number])
        return (not keys, rate, number)


@dataclass(frozen=True)
class Residual:
    """What is asked beyond equalities, by when it can be asked.

    `early`: conjuncts without constants of members, each asked once its inputs are bound and its
    flag is up; `late`: the others, asked of whole combinations. `groups`: the inputs behind each
    flag. `layout`: the columns of the row that both look at, flags last. `fixed`: constants that
    all members share, after those of the recipe, of which there are `own`.
    """

    early: Expression
    late: Expression
    groups: tuple[frozenset[int], ...]
    layout: Layout
    columns: tuple[str, ...]
    own: int
    fixed: tuple[Literal, ...]


def residual_of(spec: JoinSpec) -> Residual:
    parts = conjuncts(spec.residual)
    lasting = [p for p in parts if not _own_constants(p)]
    groups = tuple(dict.fromkeys(inputs_of(p) for p in lasting))
    columns = tuple(dict.fromkeys(ref.name for ref in refs(spec.residual)))
    own = 1 + max((index for p in parts for index in _own_constants(p)), default=-1)
    late = conjunction(tuple(p for p in parts if _own_constants(p)))
    late, fixed = _lifted(late, own)
    return Residual(
        conjunction(tuple(_flagged(p, groups.index(inputs_of(p))) for p in lasting)),
        late,
        groups,
        Layout((*columns, *(f"#{k}" for k in range(len(groups))))),
        columns,
        own,
        fixed,
    )


def _own_constants(expression: Expression) -> set[int]:
    return {e.index for e in walk(expression) if isinstance(e, Parameter)}


def _flagged(expression: Expression, group: int) -> Expression:
    """True while the flag is down."""
    down = Call("not", (Ref(Source.INPUT, f"#{group}", BOOLEAN),), BOOLEAN)
    return Call("or", (down, expression), BOOLEAN)


def _lifted(expression: Expression, first: int) -> tuple[Expression, tuple[Literal, ...]]:
    """The expression with parameters, from number `first` on, for its literals."""
    fixed: list[Literal] = []

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Literal) or part.value is None or part.type == BOOLEAN:
            return None
        fixed.append(part)
        return Parameter(first + len(fixed) - 1, part.type)

    return transform(expression, change), tuple(fixed)
