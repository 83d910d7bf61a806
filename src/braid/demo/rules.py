"""1,000 standing queries of five shapes; the queries of a shape differ in names and constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from braid.demo.stocks import Market, levels


@dataclass(frozen=True)
class Rule:
    id: str
    shape: str
    text: str


Writer = Callable[[str, float, np.random.Generator], str]


def price_alert(name: str, level: float, random: np.random.Generator) -> str:
    bound = level * random.uniform(1.04, 1.08)
    return f"SELECT * FROM FILTER{{Name = '{name}' AND Price > {bound:.2f}}}(Stock)"


def block_trade(name: str, level: float, random: np.random.Generator) -> str:
    volume = random.integers(9_000, 9_990)
    return f"SELECT Name, Volume, Price FROM FILTER{{Name = '{name}' AND Volume > {volume}}}(Stock)"


def rebound(name: str, level: float, random: np.random.Generator) -> str:
    low, gain = level * random.uniform(0.93, 0.96), random.uniform(1.03, 1.06)
    return f"""\
SELECT Name, Price_1 AS low, Price AS high
FROM (FILTER{{Name = '{name}' AND Price < {low:.2f}}}(Stock))
  NEXT{{$2.Name = $1.Name AND $2.Price > {gain:.3f} * $1.Price AND DUR <= 5min}} Stock"""


def rising_run(name: str, level: float, random: np.random.Generator) -> str:
    volume, steps = random.integers(5_000, 9_000), random.integers(4, 7)
    return f"""\
SELECT Name, Price_1 AS first, Price AS last, cnt
FROM FILTER{{cnt >= {steps}}}(
  (SELECT *, 1 AS cnt FROM FILTER{{Name = '{name}' AND Volume > {volume}}}(Stock))
  FOLD{{$2.Name = $.Name, $2.Price > $.Price AND DUR <= 10min, $.cnt + 1 AS cnt}}
  Stock)"""


#: What the follow-up queries read: one query publishes it for all names.
DIPS = """\
SELECT Name, Price_1 AS before, Price AS after
FROM Stock NEXT{$2.Name = $1.Name AND $2.Price < 0.985 * $1.Price AND DUR <= 10 s} Stock
PUBLISH Dip"""


def double_dip(name: str, level: float, random: np.random.Generator) -> str:
    seconds = random.integers(20, 90)
    return f"""\
SELECT Name, after_1 AS first, after AS second
FROM FILTER{{Name = '{name}'}}(Dip) NEXT{{$2.Name = $1.Name AND DUR <= {seconds} s}} Dip"""


SHAPES: dict[str, tuple[int, Writer]] = {
    "price alert": (400, price_alert),
    "block trade": (150, block_trade),
    "rebound": (280, rebound),
    "rising run": (120, rising_run),
    "double dip": (49, double_dip),
}


def rules(market: Market) -> list[Rule]:
    """All queries: the shapes in turn over the names, and the one that publishes dips."""
    random = np.random.default_rng(market.seed + 2)
    known = list(levels(market).items())
    made = [Rule("dips", "dip", DIPS)]
    for shape, (number, writer) in SHAPES.items():
        for index in range(number):
            name, level = known[index % len(known)]
            text = writer(name, level, random)
            made.append(Rule(f"{shape.replace(' ', '_')}_{index:03d}", shape, text))
    return made
