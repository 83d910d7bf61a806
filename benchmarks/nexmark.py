"""NEXMark: the queries that are joins, windows and aggregates, in CQL, over persons, auctions and bids.

A query of NEXMark is a table that is kept up to date. Here it is a relation: what came into it less what went
out of it is what is in it. Tumbling and hopping windows of NEXMark are groups: by the ten seconds that a
row falls into, and by each of the five hops that it falls into.

Left out are those that the language cannot say: q6 (a window over rows that are ranked), q19 (the
ten best), q101 (an outer join), q104 (NOT IN); q16 is without its minute, which is of a format of texts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

TIMESTAMP = pa.timestamp("us", "UTC")
_TYPES: dict[str, dict[str, pa.DataType]] = {
    "person": {
        "id": pa.int64(),
        "name": pa.string(),
        "city": pa.string(),
        "state": pa.string(),
        "date_time": TIMESTAMP,
    },
    "auction": {
        "id": pa.int64(),
        "item_name": pa.string(),
        "description": pa.string(),
        "initial_bid": pa.int64(),
        "reserve": pa.int64(),
        "date_time": TIMESTAMP,
        "expires": TIMESTAMP,
        "seller": pa.int64(),
        "category": pa.int64(),
        "extra": pa.string(),
    },
    "bid": {
        "auction": pa.int64(),
        "bidder": pa.int64(),
        "price": pa.int64(),
        "channel": pa.string(),
        "url": pa.string(),
        "date_time": TIMESTAMP,
        "extra": pa.string(),
    },
}
#: The time of a stream is no attribute, and NEXMark's queries ask for it: it comes twice. `no` says
#: which of the rows of one time is the last.
SCHEMAS = {
    stream: pa.schema([*columns.items(), ("ts", TIMESTAMP), ("no", pa.int64())])
    for stream, columns in _TYPES.items()
}
_SQL = {pa.int64(): "BIGINT", pa.string(): "STRING", TIMESTAMP: "TIMESTAMP"}

STREAMS = "".join(
    f"CREATE STREAM {stream} ({', '.join(f'{f.name} {_SQL[f.type]}' for f in schema)}) TIME ts SEQUENCE no;\n"
    for stream, schema in SCHEMAS.items()
)

_SECOND = "CAST(date_time AS BIGINT)"
_HOPS = " UNION ".join(
    f"(SELECT auction, {_SECOND} DIV 2 * 2 - {2 * hop} AS starttime FROM bid)" for hop in range(5)
)


_RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")


def _ranked(what: str, name: str) -> str:
    """How many of something there are in all, and by three ranks of price."""
    distinct = "distinct " if what != "1" else ""
    counted = [what, *(f"CASE WHEN {rank} THEN {what} END" for rank in _RANKS)]
    return ", ".join(
        f"count({distinct}{value}) As {name}_{number}" for number, value in enumerate(counted)
    )


_BIDS = _ranked("1", "bids")
_RANKED = ", ".join([_BIDS, _ranked("bidder", "bidders"), _ranked("auction", "auctions")])

VIEWS = f"""
CREATE VIEW hops AS SELECT * FROM {_HOPS};
CREATE VIEW auction_bids (auction, starttime, num) AS
  Select auction, starttime, count(*) From hops Group By auction, starttime;
CREATE VIEW final (id, category, final) AS
  Select A.id, A.category, max(B.price) From auction A, bid B
  Where A.id = B.auction And B.date_time Between A.date_time And A.expires
  Group By A.id, A.category;
CREATE VIEW best (id, bidder, price, date_time) AS
  Select B.auction, B.bidder, B.price, B.date_time From bid B, final F, auction A
  Where B.auction = F.id And B.price = F.final And A.id = B.auction
    And B.date_time Between A.date_time And A.expires;
CREATE VIEW counted (id, item_name, bids) AS
  Select A.id, A.item_name, count(*) From auction A, bid B Where A.id = B.auction
  Group By A.id, A.item_name;
"""

QUERIES = {
    "q3": """Select P.name, P.city, P.state, A.id From auction A, person P
             Where A.seller = P.id And A.category = 10
               And (P.state = 'or' Or P.state = 'id' Or P.state = 'ca')""",
    "q4": "Select category, avg(final) From final Group By category",
    "q5": """Select A.auction, A.num
             From auction_bids A, (Select starttime, max(num) As most From auction_bids Group By starttime) M
             Where A.starttime = M.starttime And A.num >= M.most""",
    "q7": f"""Select B.auction, B.price, B.bidder, B.date_time
              From bid B, (Select {_SECOND} DIV 10 * 10 As begun, max(price) As most
                           From bid Group By {_SECOND} DIV 10 * 10) M
              Where B.price = M.most
                And B.date_time Between CAST(M.begun AS TIMESTAMP) And CAST(M.begun + 10 AS TIMESTAMP)""",
    "q8": f"""Select P.id, P.name, CAST(P.begun AS TIMESTAMP) As starttime
              From (Select Distinct id, name, {_SECOND} DIV 10 * 10 As begun From person) P,
                   (Select Distinct seller, {_SECOND} DIV 10 * 10 As begun From auction) A
              Where P.id = A.seller And P.begun = A.begun""",
    "q9": """Select A.id, A.item_name, A.description, A.initial_bid, A.reserve, A.date_time, A.expires,
                    A.seller, A.category, A.id As auction, B.bidder, B.price, B.date_time As at
             From auction A, best B, (Select id, min(date_time) As first From best Group By id) F
             Where A.id = B.id And B.id = F.id And B.date_time = F.first""",
    "q15": f"Select CAST(date_time AS DATE) As day, {_RANKED} From bid Group By CAST(date_time AS DATE)",
    "q16": f"""Select channel, CAST(date_time AS DATE) As day, {_RANKED}
               From bid Group By channel, CAST(date_time AS DATE)""",
    "q17": f"""Select auction, CAST(date_time AS DATE) As day, {_BIDS},
                      min(price), max(price), avg(price), sum(price)
               From bid Group By auction, CAST(date_time AS DATE)""",
    "q18": """Select auction, bidder, price, channel, url, date_time, extra
              From bid [Partition By bidder, auction Rows 1]""",
    "q20": """Select B.auction, B.bidder, B.price, B.channel, B.url, B.date_time As bid_date_time,
                     B.extra As bid_extra, A.item_name, A.description, A.initial_bid, A.reserve,
                     A.date_time As auction_date_time, A.expires, A.seller, A.category,
                     A.extra As auction_extra
              From bid B, auction A Where B.auction = A.id And A.category = 10""",
    "q102": """Select C.id, C.item_name, C.bids From counted C,
                      (Select count(*) As bids, count(distinct auction) As auctions From bid) T
               Where C.bids >= T.bids DIV T.auctions""",
    "q103": """Select A.id, A.item_name
               From auction A, (Select auction From bid Group By auction Having count(*) >= 20) B
               Where A.id = B.auction""",
    "q105": "Select id, item_name, bids From counted",
    "q106": "Select min(final) From final",
}


def statements(queries: Sequence[str] = tuple(QUERIES)) -> str:
    """Streams, views, and for each query what comes into its relation and what goes out of it."""
    named = "".join(_numbered(name) for name in queries)
    return STREAMS + VIEWS + named


def _numbered(name: str) -> str:
    return "".join(
        f"CREATE QUERY {name}_{way} AS {how}({QUERIES[name]});\n"
        for way, how in (("in", "Istream"), ("out", "Dstream"))
    )


# ---- events ----


@dataclass(frozen=True)
class Market:
    """Persons, auctions and bids, as rows in order of time."""

    person: list[dict[str, Any]]
    auction: list[dict[str, Any]]
    bid: list[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.person) + len(self.auction) + len(self.bid)

    def batches(self, span: timedelta) -> list[dict[str, pa.Table]]:
        """All streams, so long a time at once."""
        tables = {stream: _table(stream, getattr(self, stream)) for stream in SCHEMAS}
        times = {s: t["ts"].combine_chunks().cast(pa.int64()).to_numpy() for s, t in tables.items()}
        first = min(int(time[0]) for time in times.values())
        last = max(int(time[-1]) for time in times.values())
        step = span // timedelta(microseconds=1)
        return [
            {
                stream: table.slice(start, stop - start)
                for stream, table in tables.items()
                for start, stop in [np.searchsorted(times[stream], [begin, begin + step]).tolist()]
            }
            for begin in range(first, last + 1, step)
        ]


def _table(stream: str, rows: list[dict[str, Any]]) -> pa.Table:
    columns = {name: [row[name] for row in rows] for name in _TYPES[stream]}
    order = {"ts": columns["date_time"], "no": range(len(rows))}
    return pa.table(columns | order, schema=SCHEMAS[stream])


BEGIN = datetime(2015, 7, 15, tzinfo=UTC)
_NAMES = ("peter jones", "kate smith", "vicky noris", "saul abrams", "john white")
_STATES = ("or", "id", "ca", "wa", "az", "wy")
_CHANNELS = ("Apple", "Google", "Facebook", "Baidu")


def drawn(count: int, seed: int) -> Market:
    """Of 50 events 1 is a person, 3 are auctions and 46 bids, as in NEXMark; ten milliseconds apart.

    Bids go to the last hundred auctions, some after these have expired.
    """
    random = np.random.default_rng((seed, 9))
    price = np.exp(random.uniform(np.log(100), np.log(1e8), count)).astype(np.int64).tolist()
    pick = random.random((count, 3)).tolist()
    made = Market([], [], [])
    for number in range(count):
        at, (one, other, third) = BEGIN + number * timedelta(milliseconds=10), pick[number]
        people, things = len(made.person), len(made.auction)
        if number % 50 == 0:
            row = {"id": 1000 + people, "name": _chosen(_NAMES, one)}
            row |= {"city": "boise", "state": _chosen(_STATES, other), "date_time": at}
            made.person.append(row)
        elif number % 50 < 4:
            row = {"id": 1000 + things, "item_name": f"item {things}", "description": "of use"}
            row |= {"initial_bid": price[number], "reserve": 2 * price[number], "date_time": at}
            row |= {"expires": at + timedelta(seconds=20 * other), "extra": "x" * (number % 9)}
            row |= {"seller": 1000 + int(one * people), "category": 10 + int(5 * third)}
            made.auction.append(row)
        else:
            near = max(0, things - 100)
            row = {"auction": 1000 + near + int(one * one * (things - near))}
            row |= {"bidder": 1000 + int(other * people), "price": price[number]}
            row |= {"channel": _chosen((*_CHANNELS, f"channel-{number % 97}"), third)}
            row |= {"url": f"https://market/{number % 31}", "date_time": at, "extra": str(number)}
            made.bid.append(row)
    return made


def _chosen(texts: Sequence[str], at: float) -> str:
    return texts[int(at * len(texts))]


def given(folder: Path) -> Market:
    """The fixed input of `shared/data/nexmark`; q18 takes the first `extra` of two bids at one time."""
    rows = {stream: sorted(_inserted(folder, stream), key=_extra)[::-1] for stream in SCHEMAS}
    return Market(**{stream: sorted(some, key=_time) for stream, some in rows.items()})


def _extra(row: dict[str, Any]) -> Any:
    return row["extra"]


def _time(row: dict[str, Any]) -> Any:
    return row["date_time"]


def _inserted(folder: Path, stream: str) -> Iterator[dict[str, Any]]:
    text = (folder / "e2e_test" / "nexmark" / f"insert_{stream}.slt.part").read_text("utf-8")
    head, _, tuples = text.partition("VALUES")
    names = [name.strip() for name in head.partition("(")[2].rpartition(")")[0].split(",")]
    for values in ast.literal_eval(f"[{tuples.strip().rstrip(';')}]"):
        row = dict(zip(names, values, strict=True))
        for name, type_ in _TYPES[stream].items():
            if type_ == TIMESTAMP:
                row[name] = datetime.fromisoformat(row[name]).replace(tzinfo=UTC)
        yield row


def given_rows(folder: Path, query: str) -> list[list[str]]:
    """The rows that a query is to have, in words; q16 without its minute."""
    path = folder / "e2e_test" / "streaming" / "nexmark" / f"{query}.slt.part"
    lines = path.read_text("utf-8").partition("----\n")[2].splitlines()
    rows = [[_word(word) for word in line.split()] for line in lines if line.strip()]
    return sorted([*row[:2], *row[3:]] if query == "q16" else row for row in rows)


def _word(text: str) -> str:
    """Averages as `number` writes them; everything else as it stands."""
    whole, point, part = text.partition(".")
    return number(float(text)) if point and whole.isdigit() and part.isdigit() else text


def number(value: float) -> str:
    """To ten digits: averages are given with more of them than a double has."""
    return f"{value:.10g}"
