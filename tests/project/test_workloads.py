"""The workloads of the benchmarks: drawn as described, and their answers worked out a second way."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from benchmarks import articles, cayuga, rumor, selections
from benchmarks.cayuga import Events, Parameters, Subscriptions, Texts
from benchmarks.cayuga_answers import expected
from benchmarks.cayuga_prototype import compile_rules, find_matches, matches, waiting
from benchmarks.engines import Checked, Feed, Standing, digest, label
from benchmarks.workloads import zipf

PARAMETERS = Parameters(planted=200)
TICKS = PARAMETERS.planted_ticks


def stream(template: str) -> Events:
    return cayuga.events(TICKS, PARAMETERS, apart=1 if template.startswith("linear") else 3)


def holds(drawn: Subscriptions, query: int, step: int, seen: Events, tick: int) -> bool:
    """Atom by atom, one event at a time."""
    condition = drawn.steps[step]
    for side in range(2):
        if seen.discrete[tick, condition.equal[query, side]] != condition.value[query, side]:
            return False
        low, high = PARAMETERS.bounds(condition.number[query, side])
        if not low <= seen.continuous[tick, condition.range[query, side]] <= high:
            return False
    return True


def filter_matches(drawn: Subscriptions, query: int, seen: Events) -> list[tuple[int, int, int]]:
    """The template Filter as it reads: each event in turn, with all patterns that wait for it."""
    found: list[tuple[int, int, int]] = []
    waiting: list[tuple[int, int]] = []  # start, step to come
    primary = seen.discrete[:, drawn.primary[query]]
    for tick in range(len(seen)):
        waiting = [(start, step) for start, step in waiting if tick - start <= PARAMETERS.duration]
        if primary[tick] != drawn.value[query]:
            continue
        going_on = []
        for start, step in waiting:
            if holds(drawn, query, step, seen, tick):
                if step == 1:
                    going_on.append((start, 2))
                else:
                    found.append((query, start, tick))
        waiting = going_on
        if holds(drawn, query, 0, seen, tick):
            waiting.append((tick, 1))
    return found


def test_filter_answers_by_a_plain_loop() -> None:
    """200 subscriptions, 2,000 events, one after the other."""
    seen = stream("filter")
    drawn = cayuga.subscriptions(0, PARAMETERS, seen)
    plain = [m for query in range(200) for m in filter_matches(drawn, query, seen)]
    assert len(plain) > 100
    assert sorted(plain) == sorted(map(tuple, expected("filter", drawn, 200, seen, PARAMETERS)))


def test_prototype_finds_the_same() -> None:
    seen = stream("filter")
    rules = compile_rules(300, PARAMETERS, seen)
    found = matches(10_000)
    held = waiting(10_000, PARAMETERS)
    domain, duration = PARAMETERS.domain, PARAMETERS.duration
    columns = (seen.discrete, seen.continuous)
    count = find_matches(*columns, rules, held, found, domain, duration)
    drawn = cayuga.subscriptions(0, PARAMETERS, seen)
    rows = np.stack([column[:count] for column in found], axis=1)
    assert digest(rows) == digest(expected("filter", drawn, 300, seen, PARAMETERS))


@pytest.mark.parametrize("template", cayuga.TEMPLATES)
def test_texts_say_what_is_expected(template: str) -> None:
    """The texts mean what the answers were worked out for: a few of them in an engine."""
    seen = stream(template)
    standing = Standing([cayuga.SOURCE])
    standing.register(Texts(template, PARAMETERS, seen).queries(10))
    sums = ("sum_c0",) if template == "nondeterministic_agg" else ()
    run = standing.run(seen.feed(500, gap=21), Checked([f"q{n}" for n in range(10)], TICKS, sums))
    drawn = cayuga.subscriptions(0, PARAMETERS, seen)
    wanted = expected(template, drawn, 10, seen, PARAMETERS)
    assert len(wanted)
    assert digest(run.found) == digest(wanted)


def test_larger_sets_begin_like_smaller_ones() -> None:
    seen = stream("filter")
    few = list(Texts("filter", PARAMETERS, seen).queries(50))
    many = list(islice(Texts("filter", PARAMETERS, seen).queries(30_000), 50))
    assert few == many
    longer = cayuga.events(3 * TICKS, PARAMETERS, apart=3)
    assert (longer.discrete[:TICKS] == seen.discrete).all()
    assert list(selections.reading_queries(5, 1)) == list(
        islice(selections.reading_queries(20_000, 1), 5)
    )
    assert list(rumor.queries("w1", 5, 1)) == list(islice(rumor.queries("w1", 20_000, 1), 5))
    assert list(articles.queries("stateless", 5, 1)) == list(
        islice(articles.queries("stateless", 500, 1), 5)
    )


def test_zipf() -> None:
    random = np.random.default_rng(0)
    even = np.bincount(zipf(random, 10_000, 10, 0.0), minlength=10)
    assert even.min() > 800
    skewed = np.bincount(zipf(random, 10_000, 10, 1.0), minlength=10)
    assert skewed[0] / skewed[9] == pytest.approx(10, rel=0.3)


def test_rules_table_is_a_join() -> None:
    seen, wanted = selections.quotes(3_000, 1), selections.rules(2_000, 1)
    rows, rules = selections.RulesTable(wanted, at_once=100).join(
        seen.feed(3_000).tables(0)[0]["Stock"]
    )
    expected_rows = selections.quotes_wanted(seen, wanted)
    assert digest(np.column_stack([rules, rows, rows])) == digest(expected_rows)
    assert len(rows)


def test_rounds_are_alike_and_apart() -> None:
    """Each round's events are later, and the neutral event lets nothing through."""
    seen = stream("filter")
    feed = seen.feed(700, gap=21)
    standing = Standing([cayuga.SOURCE])
    standing.register(Texts("filter", PARAMETERS, seen).queries(5))
    checked = Checked([f"q{n}" for n in range(5)], TICKS)
    first, second = standing.run(feed, checked), standing.run(feed, checked)
    assert first.matches == second.matches > 0
    assert digest(first.found) == digest(second.found)


def test_feeds_are_cut_by_time() -> None:
    feed = Feed({"S": {"t": np.array([0, 2, 4])}, ("A", "B"): {"t": np.array([1, 3])}}, 2, 10)
    assert (feed.ticks, feed.events) == (5, 7)
    assert [{k: t["t"].to_pylist() for k, t in b.items()} for b in feed.tables(100)] == [
        {"S": [100], ("A", "B"): [101]},
        {"S": [102], ("A", "B"): [103]},
        {"S": [104], ("A", "B"): []},
    ]
    assert feed.first(3).events == 4


def test_labels() -> None:
    assert [label(n) for n in (500, 1_000, 400_000, 1_000_000)] == ["500", "1k", "400k", "1m"]
