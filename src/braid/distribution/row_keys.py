"""Routing keys of relations: attributes that keep all rows of a result on one shard.

The continuation of `keys.py` for windows, joins and groups. An option of a relation says which
routing channel every stream below it reads, and which columns of its rows have the routing value.

| relation     | what must hold, and what is located                                          |
| ------------ | ---------------------------------------------------------------------------- |
| Window       | [Rows] needs a partition by a located key; as the stream                     |
| KeepRows     | nothing; as the input                                                        |
| MapRows      | nothing; the columns that are plain copies of located ones                   |
| Join         | equalities of located columns that link all inputs; the located ones of all  |
| GroupRows    | a located key; the located keys                                              |
| DistinctRows | a located column: equal rows must meet; as the input                         |
| Detection    | PARTITION BY a key that is located in all inputs; those keys. Without it never: |
|              | a batch is cut from all events of an input                                   |

A stream of a relation tells of rows by value, so equal rows must meet here too: some column must
be located, unless nothing ever leaves. Rstream shows all rows whenever an event occurs anywhere;
on a shard it hears of its own events only. That is the same if there are rows only at instants
at which the shard has an event itself: where a window [Now] is joined in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from braid.algebra.expressions import Ref
from braid.algebra.joins import Comparison, parts_of, plain_ref
from braid.algebra.nodes import Node
from braid.algebra.relations import (
    Detection,
    DistinctRows,
    GroupRows,
    Join,
    KeepRows,
    MapRows,
    Relation,
    StreamKind,
    ToStream,
    Window,
    WindowKind,
    column,
    key_name,
    walk_rows,
)
from braid.distribution.routing_options import MAX_OPTIONS, Option, Unkeyable, copied, distinct

#: The options of a stream.
Streams = Callable[[Node], list[Option]]


def stream_options(node: ToStream, streams: Streams) -> list[Option]:
    """The ways to route the inputs of a stream of a relation."""
    relation = node.relation
    if node.kind is StreamKind.RSTREAM and not _only_now(relation):
        raise Unkeyable("Rstream shows all rows whenever an event occurs on any shard")
    found = _options(relation, streams)
    if node.kind is StreamKind.RSTREAM or _only_grows(relation):
        return found
    kept = [option for option in found if option.located]
    if not kept:
        raise Unkeyable(f"{node.kind.value} compares rows that do not have the routing attribute")
    return kept


def correlated(relation: Relation) -> Iterator[str]:
    """The columns that relate rows: those of equalities, partitions and groups."""
    for part in walk_rows(relation):
        match part:
            case Window(keys=keys):
                yield from keys
            case Join():
                for left, right in map(_linked, parts_of(part).equalities):
                    yield from (ref.name for ref in (left, right) if ref is not None)
            case GroupRows(keys=keys):
                yield from (ref.name for key in keys if (ref := plain_ref(key)) is not None)


def _options(relation: Relation, streams: Streams) -> list[Option]:
    match relation:
        case Window():
            return _window(relation, streams(relation.input))
        case KeepRows(input=below):
            return _options(below, streams)
        case MapRows():
            return distinct(copied(relation.items, o) for o in _options(relation.input, streams))
        case Join():
            return _join(relation, [_options(below, streams) for below in relation.inputs])
        case GroupRows():
            return _group(relation, _options(relation.input, streams))
        case DistinctRows(input=below):
            found = [option for option in _options(below, streams) if option.located]
            return found or _refuse("DISTINCT compares rows without the routing attribute")
        case Detection():
            return _detection(relation, streams)


def _window(window: Window, found: list[Option]) -> list[Option]:
    if window.kind is not WindowKind.ROWS:
        return found
    if not window.keys:
        raise Unkeyable("a window [Rows] without PARTITION BY counts all events")
    kept = [option for option in found if not option.located.isdisjoint(window.keys)]
    shown = ", ".join(window.keys)
    return kept or _refuse(f"no routing attribute is in PARTITION BY {shown} of a window")


def _join(join: Join, sides: list[list[Option]]) -> list[Option]:
    equalities = parts_of(join).equalities
    found = distinct(
        _joined(equalities, chosen)
        for chosen, _ in zip(product(*sides), range(MAX_OPTIONS**2), strict=False)
    )
    return found or _refuse("a join does not relate all its inputs by equalities of attributes")


def _joined(equalities: tuple[Comparison, ...], chosen: tuple[Option, ...]) -> Option | None:
    """All inputs by their options, if located columns link them."""
    groups = [{number} for number in range(len(chosen))]
    for equality in equalities:
        left, right = _linked(equality)
        if left is None or right is None:
            continue
        first, second = equality.inputs
        if left.name in chosen[first].located and right.name in chosen[second].located:
            touched = [g for g in groups if first in g or second in g]
            groups = [g for g in groups if g not in touched] + [set().union(*touched)]
    if len(groups) > 1:
        return None
    located = {column(i, name) for i, option in enumerate(chosen) for name in option.located}
    return Option(frozenset(located), tuple(leaf for option in chosen for leaf in option.leaves))


def _linked(equality: Comparison) -> tuple[Ref | None, Ref | None]:
    return plain_ref(equality.left.expression), plain_ref(equality.right.expression)


def _detection(detection: Detection, streams: Streams) -> list[Option]:
    """Windows, batches and answers are of one value of the keys, so any one of them will do."""
    if not detection.partition:
        raise Unkeyable("DETECT without PARTITION BY cuts batches of all events of an input")
    sides = []
    for number, window in enumerate(detection.join.inputs):
        assert isinstance(window, Window)
        keys = {part.columns[number] for part in detection.partition}
        sides.append([o for o in streams(window.input) if not o.located.isdisjoint(keys)])
    found = distinct(
        _detected(detection, chosen)
        for chosen, _ in zip(product(*sides), range(MAX_OPTIONS**2), strict=False)
    )
    shown = ", ".join(part.name for part in detection.partition)
    return found or _refuse(f"no routing attribute of all inputs is in PARTITION BY {shown}")


def _detected(detection: Detection, chosen: tuple[Option, ...]) -> Option | None:
    located = {
        part.name
        for part in detection.partition
        if all(c in o.located for c, o in zip(part.columns, chosen, strict=True))
    }
    if not located:
        return None
    return Option(frozenset(located), tuple(leaf for option in chosen for leaf in option.leaves))


def _group(relation: GroupRows, found: list[Option]) -> list[Option]:
    if not relation.keys:
        raise Unkeyable("an aggregate without GROUP BY needs all rows")
    items = tuple((key_name(number), key) for number, key in enumerate(relation.keys))
    kept = distinct(copied(items, option) for option in found)
    kept = [option for option in kept if option.located]
    return kept or _refuse("GROUP BY does not have the routing attribute")


def _only_now(relation: Relation) -> bool:
    """Whether rows exist only at instants at which an event of a stream below occurs."""
    match relation:
        case Window(kind=kind):
            return kind is WindowKind.NOW
        case KeepRows(input=below) | MapRows(input=below) | DistinctRows(input=below):
            return _only_now(below)
        case Join(inputs=inputs):
            return any(map(_only_now, inputs))
        case GroupRows(keys=keys, input=below):
            return bool(keys) and _only_now(below)
        case Detection():
            return False


def _only_grows(relation: Relation) -> bool:
    """Whether rows never leave, so that no row replaces another."""
    match relation:
        case Window(kind=kind):
            return kind is WindowKind.UNBOUNDED
        case KeepRows(input=below) | MapRows(input=below):
            return _only_grows(below)
        case Join(inputs=inputs):
            return all(map(_only_grows, inputs))
        case GroupRows() | DistinctRows() | Detection():
            return False


def _refuse(reason: str) -> list[Option]:
    raise Unkeyable(reason)
