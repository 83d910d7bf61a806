"""NEXMark's queries a second time, as plain loops over whole tables: what is in each at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from benchmarks.nexmark import Market, number

Row = dict[str, Any]
Rows = Iterator[tuple[Any, ...]]
TEN = timedelta(seconds=10)
#: Without GROUP BY there is a row before there is any event: it goes without having come.
UNGROUPED = ("q106",)


def rows_in(found: Mapping[str, Iterable[pa.Table]], query: str) -> list[list[str]]:
    """What came into a query's relation and did not go out of it, in words."""
    held: dict[tuple[Any, ...], int] = defaultdict(int)
    if query in UNGROUPED:
        held[(None,)] = 1
    for way, sign in (("in", 1), ("out", -1)):
        for table in found.get(f"{query}_{way}", ()):
            columns = table.drop_columns(["start", "end"]).to_pydict().values()
            for row in zip(*columns, strict=True):
                held[row] += sign
    assert all(count >= 0 for count in held.values()), "nothing goes that did not come"
    return words(row for row, count in held.items() for _ in range(count))


def words(rows: Iterable[tuple[Any, ...]]) -> list[list[str]]:
    """Rows as the expected ones are given: in words, sorted, times without a zone."""
    return sorted(" ".join(map(_text, row)).split() for row in rows)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None)
        return moment.isoformat(" ", "milliseconds" if moment.microsecond else "seconds")
    if isinstance(value, float):
        return number(value)
    return str(value)


# ---- one function a query ----


def begun(row: Row, seconds: int) -> datetime:
    """When the tumbling window of a row began."""
    second = int(row["date_time"].timestamp())
    return datetime.fromtimestamp(second - second % seconds, UTC)


def in_time(market: Market) -> Iterator[tuple[Row, Row]]:
    """Auctions with the bids that came before they expired."""
    for auction, bid in with_bids(market):
        if auction["date_time"] <= bid["date_time"] <= auction["expires"]:
            yield auction, bid


def with_bids(market: Market) -> Iterator[tuple[Row, Row]]:
    auctions = {auction["id"]: auction for auction in market.auction}
    for bid in market.bid:
        if bid["auction"] in auctions:
            yield auctions[bid["auction"]], bid


def finals(market: Market) -> dict[tuple[int, int], int]:
    """The highest price by auction and category."""
    found: dict[tuple[int, int], int] = {}
    for auction, bid in in_time(market):
        key = auction["id"], auction["category"]
        found[key] = max(bid["price"], found.get(key, 0))
    return found


def q3(market: Market) -> Rows:
    people = {person["id"]: person for person in market.person}
    for auction in market.auction:
        person = people.get(auction["seller"])
        if person and auction["category"] == 10 and person["state"] in ("or", "id", "ca"):
            yield person["name"], person["city"], person["state"], auction["id"]


def q4(market: Market) -> Rows:
    by_category = defaultdict(list)
    for (_, category), price in finals(market).items():
        by_category[category].append(price)
    for category, prices in by_category.items():
        yield category, sum(prices) / len(prices)


def q5(market: Market) -> Rows:
    counts: dict[datetime, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for bid in market.bid:
        for hop in range(5):
            counts[begun(bid, 2) - hop * timedelta(seconds=2)][bid["auction"]] += 1
    for by_auction in counts.values():
        for auction, count in by_auction.items():
            if count >= max(by_auction.values()):
                yield auction, count


def q7(market: Market) -> Rows:
    highest: dict[datetime, int] = {}
    for bid in market.bid:
        highest[begun(bid, 10)] = max(bid["price"], highest.get(begun(bid, 10), 0))
    for bid in market.bid:
        at = begun(bid, 10)
        windows = [at, at - TEN] if at == bid["date_time"] else [at]
        for window in windows:
            if highest.get(window) == bid["price"]:
                yield bid["auction"], bid["price"], bid["bidder"], bid["date_time"]


def q8(market: Market) -> Rows:
    sellers = {(auction["seller"], begun(auction, 10)) for auction in market.auction}
    for person in market.person:
        if (person["id"], begun(person, 10)) in sellers:
            yield person["id"], person["name"], begun(person, 10)


def q9(market: Market) -> Rows:
    best: dict[int, tuple[Row, Row]] = {}
    for auction, bid in in_time(market):
        _, other = best.get(auction["id"], (auction, bid))
        if (-bid["price"], bid["date_time"]) <= (-other["price"], other["date_time"]):
            best[auction["id"]] = auction, bid
    told = ("id", "item_name", "description", "initial_bid", "reserve")
    told += ("date_time", "expires", "seller", "category")
    for auction, bid in best.values():
        won = (bid["auction"], bid["bidder"], bid["price"], bid["date_time"])
        yield (*(auction[name] for name in told), *won)


def ranked(values: list[tuple[int, Any]]) -> tuple[int, int, int, int]:
    """How many different values there are in all, and by rank of price."""
    low, high = 10_000, 1_000_000
    return (
        len({value for _, value in values}),
        len({value for price, value in values if price < low}),
        len({value for price, value in values if low <= price < high}),
        len({value for price, value in values if price >= high}),
    )


def by_key(market: Market, *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Bids by some columns and the day."""
    found = defaultdict(list)
    for bid in market.bid:
        found[(*(bid[name] for name in names), bid["date_time"].date())].append(bid)
    return found


def counts(bids: list[Row]) -> tuple[int, ...]:
    each = [(bid["price"], place) for place, bid in enumerate(bids)]
    bidders = [(bid["price"], bid["bidder"]) for bid in bids]
    auctions = [(bid["price"], bid["auction"]) for bid in bids]
    return (*ranked(each), *ranked(bidders), *ranked(auctions))


def q15(market: Market) -> Rows:
    for key, bids in by_key(market).items():
        yield (*key, *counts(bids))


def q16(market: Market) -> Rows:
    for key, bids in by_key(market, "channel").items():
        yield (*key, *counts(bids))


def q17(market: Market) -> Rows:
    for key, bids in by_key(market, "auction").items():
        prices = [bid["price"] for bid in bids]
        mean = sum(prices) / len(prices)
        yield (*key, *counts(bids)[:4], min(prices), max(prices), mean, sum(prices))


def q18(market: Market) -> Rows:
    last = {(bid["auction"], bid["bidder"]): bid for bid in market.bid}
    names = ("auction", "bidder", "price", "channel", "url", "date_time", "extra")
    for bid in last.values():
        yield tuple(bid[name] for name in names)


def q20(market: Market) -> Rows:
    mine = ("auction", "bidder", "price", "channel", "url", "date_time", "extra")
    theirs = ("item_name", "description", "initial_bid", "reserve", "date_time", "expires")
    theirs += ("seller", "category", "extra")
    for auction, bid in with_bids(market):
        if auction["category"] == 10:
            yield (*(bid[name] for name in mine), *(auction[name] for name in theirs))


def q102(market: Market) -> Rows:
    enough = len(market.bid) // len({bid["auction"] for bid in market.bid})
    return (row for row in q105(market) if row[2] >= enough)


def q103(market: Market) -> Rows:
    return ((auction, name) for auction, name, count in q105(market) if count >= 20)


def q105(market: Market) -> Rows:
    found: dict[tuple[int, str], int] = defaultdict(int)
    for auction, _ in with_bids(market):
        found[auction["id"], auction["item_name"]] += 1
    return ((*key, count) for key, count in found.items())


def q106(market: Market) -> Rows:
    yield (min(finals(market).values()),)


ANSWERS: dict[str, Callable[[Market], Rows]] = {
    "q3": q3,
    "q4": q4,
    "q5": q5,
    "q7": q7,
    "q8": q8,
    "q9": q9,
    "q15": q15,
    "q16": q16,
    "q17": q17,
    "q18": q18,
    "q20": q20,
    "q102": q102,
    "q103": q103,
    "q105": q105,
    "q106": q106,
}
