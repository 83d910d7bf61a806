"""Selection queries: rules of one shape over quotes, and rules of very many shapes over readings.

- *quotes* (workload A): `Name = X AND Price > Y` over 1,000 names: what a table of rules can hold.
  Of a name's quotes each rule wants the highest hundredth or so.
- *readings* (workload B): twenty integer attributes 0..99; a rule has two equalities and two ranges
  on four of them. There are 29,070 choices of attributes: no table of rules has one shape.

Rules come in blocks, so that every set begins with the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.engines import TIME, Feed, Source
from benchmarks.workloads import Floats, Ints, name_texts

BLOCK = 10_000
NAMES = 1_000
ATTRIBUTES = 20
DOMAIN = 100
SELECTED = (0.0, 0.02)  # the share of a name's quotes that a rule wants, from and to
WIDTHS = (10, 50)  # of ranges of readings, from and to

QUOTES = Source(
    "Stock",
    pa.schema([("Name", pa.string()), ("Price", pa.float64()), (TIME, pa.int64())]),
)
READINGS = Source(
    "Readings",
    pa.schema([(f"a{i}", pa.int64()) for i in range(ATTRIBUTES)] + [(TIME, pa.int64())]),
)
#: The rules of workload A as one prepared query.
PREPARED = (
    "CREATE QUERY rules FOR EACH (who STRING, floor DOUBLE) AS"
    " SELECT * FROM FILTER{Name = :who AND Price > :floor}(Stock)"
)


# ---- workload A ----


@dataclass(frozen=True)
class Quotes:
    code: Ints
    price: Floats

    def __len__(self) -> int:
        return len(self.code)

    @property
    def names(self) -> pa.Array:
        return name_texts(NAMES).take(pa.array(self.code))

    def feed(self, batch: int) -> Feed:
        columns = {"Name": self.names, "Price": self.price, TIME: np.arange(len(self))}
        return Feed({"Stock": columns}, batch, gap=1)


@dataclass(frozen=True)
class Rules:
    code: Ints
    floor: Floats

    def __len__(self) -> int:
        return len(self.code)

    def table(self) -> pa.Table:
        """A row for each rule: its id, the name, the least price."""
        return pa.table(
            {
                "id": pa.array([f"q{n}" for n in range(len(self))]),
                "who": name_texts(NAMES).take(pa.array(self.code)),
                "floor": pa.array(self.floor),
            }
        )


def quotes(count: int, seed: int) -> Quotes:
    """Prices from 0 to 1,000, to the cent, whatever the name."""
    drawn = np.random.default_rng((seed, 0)).random((count, 2))
    return Quotes((drawn[:, 0] * NAMES).astype(np.int64), np.round(drawn[:, 1] * 1_000, 2))


def rules(count: int, seed: int) -> Rules:
    drawn = np.concatenate(
        [
            np.random.default_rng((seed, 1, block)).random((BLOCK, 2))
            for block in range(-(-count // BLOCK))
        ]
    )[:count]
    share = SELECTED[0] + drawn[:, 1] * (SELECTED[1] - SELECTED[0])
    return Rules((drawn[:, 0] * NAMES).astype(np.int64), np.round(1_000 * (1 - share), 2))


def quote_queries(wanted: Rules) -> Iterator[tuple[str, str]]:
    names = name_texts(NAMES).to_pylist()
    pairs = zip(wanted.code.tolist(), wanted.floor.tolist(), strict=True)
    for number, (code, floor) in enumerate(pairs):
        yield (
            f"q{number}",
            f"SELECT * FROM FILTER{{Name = '{names[code]}' AND Price > {floor}}}(Stock)",
        )


def quotes_wanted(seen: Quotes, wanted: Rules) -> Ints:
    """Rule, start and end of every match, rule by rule."""
    found = [
        (rule, np.flatnonzero((seen.code == code) & (seen.price > floor)))
        for rule, (code, floor) in enumerate(zip(wanted.code, wanted.floor, strict=True))
    ]
    return _rows(found)


class RulesTable:
    """The rules as a table that is joined: by hash on the name, then the price is compared.

    What Spark does with a broadcast table, on one core, in arrays: pairs of events and rules with
    the same name are made, as many at a time as fit the cache, and those that hold are kept.
    """

    def __init__(self, wanted: Rules, at_once: int = 1 << 18) -> None:
        order = np.argsort(wanted.code, kind="stable")
        self.rule = order
        self.floor = wanted.floor[order]
        counts = np.bincount(wanted.code, minlength=NAMES)
        self.count = counts
        self.begin = np.cumsum(counts) - counts
        self.names = name_texts(NAMES)
        self.rows_at_once = max(1, at_once // max(1, int(counts.mean())))

    def join(self, table: pa.Table) -> tuple[Ints, Ints]:
        """Rows and the rules that hold for them."""
        import pyarrow.compute as pc

        code = pc.index_in(table.column("Name").combine_chunks(), self.names).to_numpy()
        price = table.column("Price").to_numpy()
        rows, found = [], []
        for start in range(0, len(code), self.rows_at_once):
            part = slice(start, start + self.rows_at_once)
            row, rule = self._pairs(code[part], price[part])
            rows.append(row + start)
            found.append(rule)
        return np.concatenate(rows), np.concatenate(found)

    def _pairs(self, code: Ints, price: Floats) -> tuple[Ints, Ints]:
        count = self.count[code]
        row = np.repeat(np.arange(len(code)), count)
        place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        rule = self.begin[code][row] + place
        holds = price[row] > self.floor[rule]
        return row[holds], self.rule[rule[holds]]


# ---- workload B ----


@dataclass(frozen=True)
class Conditions:
    """Rules over readings: attributes and bounds; equalities are the first two of the four."""

    attribute: Ints  # (n, 4)
    low: Ints  # (n, 4)
    high: Ints  # (n, 4)


def readings(count: int, seed: int) -> Ints:
    drawn = np.random.default_rng((seed, 2)).random((count, ATTRIBUTES))
    return (drawn * DOMAIN).astype(np.int64)


def reading_feed(values: Ints, batch: int) -> Feed:
    columns: dict[str, Any] = {f"a{i}": values[:, i].copy() for i in range(ATTRIBUTES)}
    columns[TIME] = np.arange(len(values))
    return Feed({"Readings": columns}, batch, gap=1)


def conditions(block: int, seed: int) -> Conditions:
    random = np.random.default_rng((seed, 3, block))
    attribute = np.argsort(random.random((BLOCK, ATTRIBUTES)), axis=1)[:, :4]
    attribute[:, :2].sort(axis=1)
    attribute[:, 2:].sort(axis=1)
    low = random.integers(0, DOMAIN, (BLOCK, 4))
    width = random.integers(*WIDTHS, (BLOCK, 2))
    low[:, 2:] = low[:, 2:] * (DOMAIN - width) // DOMAIN
    high = low.copy()
    high[:, 2:] += width - 1
    return Conditions(attribute, low, high)


def reading_queries(count: int, seed: int) -> Iterator[tuple[str, str]]:
    for block in range(-(-count // BLOCK)):
        drawn = conditions(block, seed)
        columns = zip(
            drawn.attribute.tolist(), drawn.low.tolist(), drawn.high.tolist(), strict=True
        )
        numbers = range(block * BLOCK, min(count, (block + 1) * BLOCK))
        for number, ((a, b, c, d), (e, f, g, h), (_, _, i, j)) in zip(
            numbers, columns, strict=False
        ):
            text = (
                f"SELECT * FROM FILTER{{a{a} = {e} AND a{b} = {f} AND"
                f" a{c} BETWEEN {g} AND {i} AND a{d} BETWEEN {h} AND {j}}}(Readings)"
            )
            yield f"q{number}", text


def readings_wanted(values: Ints, count: int, seed: int) -> Ints:
    """Rule, start and end of every match of the first rules, rule by rule."""
    drawn = conditions(0, seed)
    found = []
    for rule in range(count):
        seen = values[:, drawn.attribute[rule]]
        holds = ((seen >= drawn.low[rule]) & (seen <= drawn.high[rule])).all(axis=1)
        found.append((rule, np.flatnonzero(holds)))
    return _rows(found)


def _rows(found: list[tuple[int, Ints]]) -> Ints:
    rows = [np.column_stack([np.full(len(at), rule), at, at]) for rule, at in found]
    return np.concatenate([np.empty((0, 3), np.int64), *rows])


def size_of(size: Mapping[str, Any], queries: int) -> int:
    """Events for so many queries: fewer where a rules table needs long for each."""
    return int(size["events_at"].get(queries, size["events"]))
