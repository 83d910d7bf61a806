"""Feed articles and the four kinds of subscriptions to them of table 4.3.

The feeds of the dissertation are not to be had. These articles are drawn: as many as there, from
as many websites, which publish on a few channels each, some sites far more often than others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.engines import TIME, Feed, Source
from benchmarks.workloads import Ints, zipf

SITES = 415
CHANNELS = 3  # of each site
POPULARITY = 100
DURATION = 100

SOURCE = Source(
    "Articles",
    pa.schema(
        [(name, pa.int64()) for name in ("site", "channel", "popularity", "title", "author")]
        + [(TIME, pa.int64())]
    ),
)

_SERIES = (
    "FILTER{{site = {site}}} Articles"
    " NEXT{{$2.site = {site} AND $2.channel = $1.channel AND $2.popularity > $1.popularity"
    " AND DUR <= {w}}} Articles"
    " NEXT{{$2.site = {site} AND $2.channel = $1.channel AND $2.popularity > $1.popularity"
    " AND DUR <= {w}}} Articles"
)
_POPULAR = "$2.site = {site} AND $2.popularity > {floor} AND DUR <= {w}"
TEMPLATES = {
    "stateless": "SELECT * FROM FILTER{{site = {site} AND popularity > {floor}}} Articles",
    "concatenation": (
        "SELECT * FROM FILTER{{site = {site} AND popularity > {floor}}} Articles"
        f" NEXT{{{{{_POPULAR}}}}} Articles NEXT{{{{{_POPULAR}}}}} Articles"
    ),
    "parameterization": f"SELECT * FROM {_SERIES}",
    "iteration": (
        "SELECT * FROM FILTER{{site = {site}}} Articles"
        " FOLD{{$2.site = {site} AND $2.channel = $.channel AND $2.popularity > $.popularity"
        " AND DUR <= {w}, , }} Articles"
    ),
}


@dataclass(frozen=True)
class Articles:
    site: Ints
    channel: Ints
    popularity: Ints

    def __len__(self) -> int:
        return len(self.site)

    def feed(self, batch: int) -> Feed:
        random = np.random.default_rng(7)
        title, author = random.integers(0, 1 << 40, (2, len(self)))
        columns = {
            "site": self.site,
            "channel": self.channel,
            "popularity": self.popularity,
            "title": title,
            "author": author,
            TIME: np.arange(len(self)),
        }
        return Feed({"Articles": columns}, batch, gap=DURATION + 1)


def articles(count: int, seed: int) -> Articles:
    random = np.random.default_rng((seed, 0))
    values = random.random((count, 2))
    site = zipf(random, count, SITES, 1.0)
    channel = site * CHANNELS + (values[:, 0] * CHANNELS).astype(np.int64)
    return Articles(site, channel, (values[:, 1] * POPULARITY).astype(np.int64))


def constants(count: int, seed: int) -> tuple[Ints, Ints]:
    """Websites and least popularities, each the same whatever the count."""
    drawn = np.random.default_rng((seed, 1)).random((count, 2))
    return (drawn[:, 0] * SITES).astype(np.int64), (drawn[:, 1] * POPULARITY).astype(np.int64)


def queries(template: str, count: int, seed: int) -> Iterator[tuple[str, str]]:
    write = TEMPLATES[template].format
    pairs = zip(*(values.tolist() for values in constants(count, seed)), strict=True)
    for number, (site, floor) in enumerate(pairs):
        yield f"q{number}", write(site=site, floor=floor, w=DURATION)


def expected(template: str, count: int, seed: int, seen: Articles) -> Ints:
    """Query, start and end of what the first subscriptions find, by a walk over each one's site."""
    rows: list[tuple[int, int, int]] = []
    for query, (site, floor) in enumerate(zip(*constants(count, seed), strict=True)):
        ticks = np.flatnonzero(seen.site == site).tolist()
        channel, popularity = seen.channel, seen.popularity
        if template in ("stateless", "concatenation"):
            popular = [tick for tick in ticks if popularity[tick] > floor]
            span = 1 if template == "stateless" else 3
            for first, last in zip(popular, popular[span - 1 :], strict=False):
                if last - first <= DURATION:
                    rows.append((query, first, last))
            continue
        for start in ticks:
            series = [start]
            for tick in ticks:
                if (
                    series[-1] < tick <= start + DURATION
                    and channel[tick] == channel[start]
                    and popularity[tick] > popularity[series[-1]]
                ):
                    series.append(tick)
            if template == "iteration":
                rows.extend((query, start, end) for end in series[1:])
            elif len(series) >= 3:
                rows.append((query, start, series[2]))
    return np.array(rows, np.int64).reshape(len(rows), 3)
