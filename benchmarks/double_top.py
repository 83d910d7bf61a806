"""Double-Top on daily closing prices (figures 4.16 and 4.17): its four formulations and their answers.

A minimum A, a maximum B, a minimum C near A, a maximum D near B, a fall to E. The formulations are
not equivalent: `iteration` (one FOLD for each monotonic run) puts out every quote of the last run, and
every quote of the first one starts a result of its own; `resubscription` sequences extrema that span three quotes, so that extrema less
than three quotes apart cannot follow each other; `cql1` and `cql2` (figure 4.16, as printed) number the
extrema, ask that they follow each other without a gap, and have strict bounds. `ANSWERS` works each out stock by
stock with plain loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import real_data
from benchmarks.workloads import Floats, Ints

_STOCK = "CREATE STREAM Stock (name STRING, price DOUBLE, t BIGINT) TIME t;"
#: The time of a stream is no attribute, and figure 4.16 compares times: there they come twice.
_STOCK_WITH_TIMES = """
CREATE STREAM Stock (time BIGINT, name STRING, price DOUBLE, t BIGINT) TIME t;
"""

#: A result: name, price of E, start, end.
Found = tuple[str, float, int, int]

_ITERATION = """
CREATE QUERY doubletop AS
SELECT name, price
FROM FILTER{price <= A}(
  (SELECT name, price, A, B, C, price AS D
   FROM FILTER{price >= 0.9 * B AND price <= 1.1 * B}(
     (SELECT name, price, A, B, price AS C
      FROM FILTER{price >= 0.9 * A AND price <= 1.1 * A}(
        (SELECT name, price, A, price AS B
         FROM FILTER{price >= 1.2 * A}(
           (SELECT name, price, price AS A
            FROM Stock FOLD{$2.name = $.name, $2.price < $.price, } Stock)
           FOLD{$2.name = $.name, $2.price > $.price, } Stock))
        FOLD{$2.name = $.name, $2.price < $.price, } Stock))
     FOLD{$2.name = $.name, $2.price > $.price, } Stock))
  FOLD{$2.name = $.name, $2.price < $.price, } Stock);
"""

_EXTREMUM = """
CREATE QUERY {name} AS
SELECT name, middle_1 AS price
FROM FILTER{{middle_1 {test} price}}(
  (SELECT name, price AS middle
   FROM FILTER{{price {test} price_1}}(Stock NEXT{{$2.name = $1.name}} Stock))
  NEXT{{$2.name = $1.name}} Stock)
PUBLISH {name};
"""

_RESUBSCRIPTION = (
    _EXTREMUM.format(name="Maxima", test=">")
    + _EXTREMUM.format(name="Minima", test="<")
    + """
CREATE QUERY Extrema AS SELECT * FROM Maxima UNION Minima PUBLISH Extrema;
CREATE QUERY doubletop AS
SELECT name, price
FROM FILTER{price <= A_1}(
  (SELECT name, A_1 AS A, B_1 AS B, C_1 AS C, price AS D
   FROM FILTER{0.9 * B_1 <= price AND price <= 1.1 * B_1}(
     (SELECT name, A_1 AS A, B_1 AS B, price AS C
      FROM FILTER{0.9 * A_1 <= price AND price <= 1.1 * A_1}(
        (SELECT name, A_1 AS A, price AS B
         FROM FILTER{price >= 1.2 * A_1}(
           (SELECT name, price AS A FROM Extrema) NEXT{$2.name = $1.name} Extrema))
        NEXT{$2.name = $1.name} Extrema))
     NEXT{$2.name = $1.name} Extrema))
  NEXT{$2.name = $1.name} Extrema);
"""
)

_EXTREMA_1 = """
CREATE VIEW StockDiff (time, name, price, pdiff) AS
  Rstream (Select S.time, S.name, S.price, (S.price - P.price) From Stock [Now] as S,
    Stock [Partition By P.name Rows 2] as P Where S.name = P.name and S.time > P.time);
CREATE VIEW Extrema (time, name, price, pdiff) AS
  Rstream (Select P.time, P.name, P.price, P.pdiff From StockDiff [Now] as S,
    StockDiff [Partition By P.name Rows 2] as P
    Where S.name = P.name and (S.pdiff * P.pdiff) < 0.0);
"""

_EXTREMA_2 = """
CREATE VIEW Extrema (time, name, price, pdiff) AS
  Istream (Select S2.time, S2.name, S2.price, (S2.price-S1.price) From
    Stock [Partition By S1.name Rows 3] as S1, Stock [Partition By S2.name Rows 3] as S2,
    Stock [Partition By S3.name Rows 3] as S3
    Where S1.name = S2.name and S2.name = S3.name and
    (S2.price-S1.price) * (S3.price-S2.price) < 0.0 and S1.time < S2.time and S2.time < S3.time);
"""

_STATES = """
CREATE VIEW ExtremaCounter (name, seqNo) AS
  Select name, count(*) from Extrema Group By name;
CREATE VIEW ExtremaSeq (name, price, pdiff, seq, prevSeq) AS
  Rstream (Select E.name, E.price, E.pdiff, C.seqNo, C.seqNo - 1 From Extrema [Now] as E,
    ExtremaCounter as C Where E.name = C.name);
CREATE VIEW stateA (name, price, seq) AS
  Select name, price, seq from ExtremaSeq Where pdiff < 0.0;
CREATE VIEW stateB (name, bprice, aprice, seq) AS
  Rstream (Select E.name, E.price, A.price, E.seq From ExtremaSeq [Now] as E, stateA as A
    Where E.name = A.name and E.prevSeq = A.seq and E.price > (A.price*1.2));
CREATE VIEW stateC (name, cprice, bprice, aprice, seq) AS
  Rstream (Select E.name, E.price, B.bprice, B.aprice, E.seq From ExtremaSeq [Now] as E,
    stateB as B Where E.name = B.name and E.prevSeq = B.seq and E.price > (B.aprice * 0.9)
    and E.price < (B.aprice * 1.1));
CREATE VIEW stateD (name, dprice, cprice, bprice, aprice, seq) AS
  Rstream (Select E.name, E.price, C.cprice, C.bprice, C.aprice, E.seq From ExtremaSeq [Now] as E,
    stateC as C Where E.name = C.name and E.prevSeq = C.seq and E.price > (C.bprice * 0.9)
    and E.price < (C.bprice * 1.1));
CREATE QUERY doubletop AS
  Rstream (Select E.name, E.price From ExtremaSeq [Now] as E,
    stateD as D Where E.name = D.name and E.prevSeq = D.seq and E.price < D.aprice);
"""

_FORMULATIONS = {
    "iteration": _STOCK + _ITERATION,
    "resubscription": _STOCK + _RESUBSCRIPTION,
    "cql1": _STOCK_WITH_TIMES + _EXTREMA_1 + _STATES,
    "cql2": _STOCK_WITH_TIMES + _EXTREMA_2 + _STATES,
}
#: How far B is above A, as printed; tops that are flatter are more frequent.
RISE = 1.2


def statements(formulation: str, rise: float = RISE) -> str:
    """What a formulation registers; the results are those of `doubletop`."""
    return _FORMULATIONS[formulation].replace(str(RISE), str(rise))


# ---- quotes ----


@dataclass(frozen=True)
class Closings:
    """Daily closing prices in order of day and name; days are numbered."""

    day: Ints
    name: pa.Array
    price: Floats

    def __len__(self) -> int:
        return len(self.day)

    def batches(self, days: int, formulation: str) -> Iterator[pa.Table]:
        """So many days at a time."""
        whole = pa.table({"name": self.name, "price": self.price, "t": self.day})
        if formulation.startswith("cql"):
            whole = whole.append_column("time", whole["t"])
        cuts = np.searchsorted(self.day, np.arange(0, int(self.day[-1]) + days + 1, days))
        for start, stop in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            yield whole.slice(start, stop - start)

    def by_name(self) -> Iterator[tuple[str, list[int], list[float]]]:
        codes = self.name.dictionary_encode()
        numbers = codes.indices.to_numpy()
        for code, name in enumerate(codes.dictionary.to_pylist()):
            rows = np.flatnonzero(numbers == code)
            yield name, self.day[rows].tolist(), self.price[rows].tolist()

    def smoothed(self, quotes: int) -> Closings:
        """Each price is the average of its stock's last so many."""
        price = self.price.copy()
        numbers = self.name.dictionary_encode().indices.to_numpy()
        for code in range(int(numbers.max()) + 1):
            rows = np.flatnonzero(numbers == code)
            sums = np.cumsum(np.concatenate([[0.0], self.price[rows]]))
            first = np.maximum(np.arange(1, len(rows) + 1) - quotes, 0)
            count = np.arange(1, len(rows) + 1) - first
            price[rows] = np.round((sums[1:] - sums[first]) / count, 4)
        return Closings(self.day, self.name, price)


def closings(names: int, days: int, seed: int) -> Closings:
    """Of the first so many companies and days: the real ones where they are, else drawn ones.

    Of a company that has several on a day (the real data has one such) the first counts: answers
    here are of one quote after the other.
    """
    path = real_data("stocks/daily.parquet")
    if path is None:
        return _drawn(names, days, seed)
    table = pq.read_table(path, columns=["Date", "Name", "Close"])
    day = table["Date"].combine_chunks().cast(pa.string()).to_numpy(zero_copy_only=False)
    numbers = np.unique(day.astype("datetime64[D]"), return_inverse=True)[1].astype(np.int64)
    texts = table["Name"].combine_chunks().cast(pa.string())
    codes = np.unique(texts.to_numpy(zero_copy_only=False).astype("U"), return_inverse=True)[1]
    _, firsts = np.unique(numbers * (codes.max() + 1) + codes, return_index=True)
    firsts.sort()
    kept = firsts[(numbers[firsts] < days) & (codes[firsts] < names)]
    price = table["Close"].combine_chunks().to_numpy()
    return Closings(numbers[kept], texts.take(pa.array(kept)), price[kept])


def _drawn(names: int, days: int, seed: int) -> Closings:
    """Prices that wander by some percent a day, as real ones do, more for some stocks than for others."""
    random = np.random.default_rng((seed, 4))
    swing = random.uniform(0.01, 0.05, names)
    steps = random.normal(0, 1, (days, names)) * swing
    price = np.round(random.uniform(20, 200, names) * np.exp(np.cumsum(steps, axis=0)), 2)
    texts = np.tile([f"N{number:04d}" for number in range(names)], days)
    day = np.repeat(np.arange(days, dtype=np.int64), names)
    return Closings(day, pa.array(texts.tolist()), price.ravel())


# ---- answers ----


def _near(price: float, other: float) -> bool:
    return 0.9 * other <= price <= 1.1 * other


def _goes_on(stage: int, price: float, ends: Sequence[float], rise: float) -> bool:
    """Whether the end of a run, with the ends of the runs before it, is what Double-Top asks."""
    if stage == 0:
        return True
    if stage == 1:
        return price >= rise * ends[0]
    return _near(price, ends[stage - 2]) if stage < 4 else price <= ends[0]


def by_iteration(seen: Closings, rise: float) -> Iterator[Found]:
    """Every quote starts; runs fall and rise in turn; an instance ends where its run does."""
    for name, days, prices in seen.by_name():
        waiting: list[tuple[int, int, tuple[float, ...]]] = []  # stage, start, ends of runs
        for place, (day, price) in enumerate(zip(days, prices, strict=True)):
            before, going_on = prices[place - 1], []
            for stage, start, ends in waiting:
                if not (price > before if stage % 2 else price < before):
                    continue
                going_on.append((stage, start, ends))
                if not _goes_on(stage, price, ends, rise):
                    continue
                if stage == 4:
                    yield name, price, start, day
                else:
                    going_on.append((stage + 1, start, (*ends, price)))
            waiting = [*going_on, (0, day, ())]


def by_resubscription(seen: Closings, rise: float) -> Iterator[Found]:
    """Extrema span three quotes; the next one begins after the last one's end."""
    for name, days, prices in seen.by_name():
        turns = [at for at, _ in _extrema(prices)]
        for first, begin in enumerate(turns):
            at, place, ends = begin, first, (prices[begin],)
            for stage in range(1, 5):
                place = next((n for n in range(place, len(turns)) if turns[n] > at + 2), -1)
                if place < 0:
                    break
                at = turns[place]
                if not _goes_on(stage, prices[at], ends, rise):
                    break
                ends = (*ends, prices[at])
            if len(ends) == 5:
                yield name, prices[at], days[begin - 1], days[at + 1]


def by_states(seen: Closings, rise: float) -> Iterator[Found]:
    """Five extrema in a row, the first a minimum, told when the last is known; strict bounds."""
    for name, days, prices in seen.by_name():
        turns = list(_extrema(prices))
        for first in range(len(turns) - 4):
            a, b, c, d, e = (prices[at] for at, _ in turns[first : first + 5])
            if turns[first][1] >= 0 or not b > a * rise:
                continue
            if a * 0.9 < c < a * 1.1 and b * 0.9 < d < b * 1.1 and e < a:
                told = days[turns[first + 4][0] + 1]
                yield name, e, told, told


def _extrema(prices: list[float]) -> Iterator[tuple[int, float]]:
    """Where a stock's price turns, and how it got there; a price that stays does not turn."""
    for at in range(1, len(prices) - 1):
        came, goes = prices[at] - prices[at - 1], prices[at + 1] - prices[at]
        if came * goes < 0.0:
            yield at, came


ANSWERS: dict[str, Callable[[Closings, float], Iterator[Found]]] = {
    "iteration": by_iteration,
    "resubscription": by_resubscription,
    "cql1": by_states,
    "cql2": by_states,
}
