"""Documents and queries of the dissertation's chapter 6.6: two levels, three levels, feeds.

A query joins k leaves of one document with k leaves of a later one, k drawn by Zipf's law, the leaves
at random. Documents of the technical benchmark have the same values in the same leaves; those of the
feed repeat channels. Queries of one shape are rows of a prepared query: names of leaves are data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

STREAM = "CREATE STREAM S (doc XML, t BIGINT) TIME t;"
ZIPF = 0.8
FEED_LEAVES = ("item_url", "channel_url", "title", "timestamp", "description")
CHANNELS = 418

#: Numbers of leaves, by the node that they lie below.
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Shape:
    """A prepared query: its text with parameters, and the names that its members give them."""

    text: str
    rows: tuple[tuple[str, ...], ...]
    parameters: tuple[str, ...]

    @property
    def columns(self) -> dict[str, list[str]]:
        columns = zip(*self.rows, strict=True)
        return {p: list(c) for p, c in zip(self.parameters, columns, strict=True)}


@dataclass(frozen=True)
class Query:
    """One query: its leaves as paths below the root, joined in order."""

    left: tuple[tuple[str, ...], ...]
    right: tuple[tuple[str, ...], ...]


def zipf(random: np.random.Generator, most: int, count: int) -> np.ndarray:
    weights = np.arange(1, most + 1) ** -ZIPF
    return random.choice(np.arange(1, most + 1), count, p=weights / weights.sum())


def flat_leaves(count: int) -> list[tuple[str, ...]]:
    return [(f"l{number}",) for number in range(count)]


def feed_leaves() -> list[tuple[str, ...]]:
    return [(name,) for name in FEED_LEAVES]


def deep_leaves() -> list[tuple[str, ...]]:
    """Three levels: four nodes below the root, four leaves below each."""
    return [(f"m{number // 4}", f"l{number}") for number in range(16)]


def drawn(leaves: Sequence[tuple[str, ...]], most: int, count: int, seed: int = 7) -> list[Query]:
    """Queries at random; the first ones are the same whatever the number is."""
    random = np.random.default_rng(seed)
    queries = []
    for k in zipf(random, most, count).tolist():
        left = random.choice(len(leaves), k, replace=False)
        right = random.choice(len(leaves), k, replace=False)
        queries.append(Query(tuple(leaves[i] for i in left), tuple(leaves[i] for i in right)))
    return queries


def _grouped(paths: Sequence[tuple[str, ...]]) -> Groups:
    """Which leaves lie below the same node."""
    groups: dict[str, list[int]] = {}
    for number, path in enumerate(paths):
        groups.setdefault(path[0] if len(path) > 1 else f"#{number}", []).append(number)
    return tuple(tuple(group) for group in groups.values())


def _block(groups: Groups, deep: bool, side: str, root: str) -> str:
    """`S/r->v0[./:m->n[./:l1->v1][./:l2->v2]]`"""
    text = f"S/{root}->{side}"
    for number, group in enumerate(groups):
        leaves = "".join(f"[./:{side}l{k}->{side}{k}]" for k in group)
        text += f"[./:{side}m{number}->{side}n{number}{leaves}]" if deep else leaves
    return text


@dataclass(frozen=True)
class _Form:
    """What queries of one shape have in common: how many joins, and which leaves lie together."""

    joins: int
    deep: bool
    left: Groups
    right: Groups

    @staticmethod
    def of(query: Query) -> _Form:
        deep = len(query.left[0]) > 1
        return _Form(len(query.left), deep, _grouped(query.left), _grouped(query.right))

    def parameters(self) -> tuple[str, ...]:
        found = []
        for side, groups in (("x", self.left), ("y", self.right)):
            for number, group in enumerate(groups):
                found += [f"{side}m{number}"] if self.deep else []
                found += [f"{side}l{k}" for k in group]
        return tuple(found)

    def row(self, query: Query) -> tuple[str, ...]:
        found = []
        for groups, paths in ((self.left, query.left), (self.right, query.right)):
            for group in groups:
                found += [paths[group[0]][0]] if self.deep else []
                found += [paths[k][-1] for k in group]
        return tuple(found)


def shapes(
    queries: Sequence[Query], window: str = "unbounded", items: str = "document_1", root: str = "r"
) -> list[Shape]:
    """The queries by the shape of their patterns."""
    found: dict[_Form, list[tuple[str, ...]]] = {}
    for query in queries:
        form = _Form.of(query)
        found.setdefault(form, []).append(form.row(query))
    made = []
    for number, (form, rows) in enumerate(found.items()):
        predicate = " AND ".join(f"x{k} = y{k}" for k in range(form.joins))
        declared = ", ".join(f"{p} STRING" for p in form.parameters())
        text = (
            f"CREATE QUERY q{number} FOR EACH ({declared}) AS SELECT {items} FROM "
            f"{_block(form.left, form.deep, 'x', root)} FOLLOWED BY{{{predicate}, {window}}} "
            f"{_block(form.right, form.deep, 'y', root)}"
        )
        made.append(Shape(text, tuple(rows), form.parameters()))
    return made


def document(leaves: Sequence[tuple[str, ...]], values: Sequence[str], root: str = "r") -> str:
    """A document with a value in each leaf."""
    below: dict[str, list[str]] = {}
    for path, value in zip(leaves, values, strict=True):
        leaf = f"<{path[-1]}>{value}</{path[-1]}>"
        below.setdefault(path[0] if len(path) > 1 else "", []).append(leaf)
    inner = "".join(
        f"<{name}>{''.join(found)}</{name}>" if name else "".join(found)
        for name, found in below.items()
    )
    return f"<{root}>{inner}</{root}>"


def pairs(leaves: Sequence[tuple[str, ...]], count: int, begin: int = 0) -> list[str]:
    """Documents in pairs that have the same values; no others have."""
    return [
        document(leaves, [f"{(begin + n) // 2}-{k}" for k in range(len(leaves))])
        for n in range(count)
    ]


def feed(count: int, seed: int = 3) -> list[str]:
    """Items of feeds: the channel repeats, a title now and then, everything else is new."""
    random = np.random.default_rng(seed)
    channels = random.integers(0, CHANNELS, count).tolist()
    titles = random.integers(0, 10 * count, count).tolist()
    return [
        document(
            feed_leaves(),
            [
                f"http://x/{n}",
                f"http://c/{channels[n]}",
                f"title {titles[n]}",
                f"t{n}",
                f"text {n}",
            ],
            "item",
        )
        for n in range(count)
    ]
