"""Every scenario: the reference gives what is written, and the engine gives it however it is fed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from tests.scenarios.comparison import assert_same
from tests.scenarios.format import (
    Case,
    Expectation,
    format_interval,
    format_table,
    format_value,
    parse,
    parse_interval,
    parse_value,
)
from tests.scenarios.running import (
    Batch,
    Event,
    Key,
    bind,
    by_engine,
    by_reference,
    find_output,
    one_batch,
    one_event_a_batch,
    random_batches,
    schemas,
)

CASES = [case for path in sorted(Path(__file__).parent.glob("*.test")) for case in parse(path)]
SPLITS = {
    "one batch": one_batch,
    "one event a batch": one_event_a_batch,
    "random batches 1": random_batches(1),
    "random batches 2": random_batches(2),
}


def expected_events(case: Case) -> dict[Key, list[Event]]:
    """What the file says, by output."""
    queries = bind(case)
    found: dict[Key, list[Event]] = {}
    for expectation in case.expectations:
        key = find_output(expectation.name, queries)
        schema = schemas(queries)[key]
        assert expectation.header == (*schema.names, "time")
        found[key] = []
        for row in expectation.rows:
            values = zip(row[:-1], schema, strict=True)
            start, end = parse_interval(row[-1], case.is_clock)
            found[key].append(Event(tuple(parse_value(t, a.type) for t, a in values), start, end))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reference_gives_what_is_written(case: Case, request: pytest.FixtureRequest) -> None:
    assert case.expectations, "a scenario without expectation says nothing"
    actual = by_reference(case, bind(case))
    if request.config.getoption("--regenerate"):
        return
    for key, events in expected_events(case).items():
        assert_same(actual[key], events, f"{case.id}, {key}")


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS.keys())
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_engine_gives_what_is_written(
    case: Case, split: Callable[[Case], list[Batch]], request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--regenerate"):
        return
    actual = by_engine(case, split(case))
    for key, events in expected_events(case).items():
        assert_same(actual.get(key, []), events, f"{case.id}, {key}")


def test_regenerate(request: pytest.FixtureRequest) -> None:
    """With --regenerate the tables below `expect` are rewritten; without it they must parse."""
    for path, group in groupby(CASES, key=lambda case: case.path):
        replaced = [(e, table_lines(case, e)) for case in group for e in case.expectations]
        if request.config.getoption("--regenerate"):
            rewrite(path, replaced)


def table_lines(case: Case, expectation: Expectation) -> list[str]:
    queries = bind(case)
    key = find_output(expectation.name, queries)
    schema = schemas(queries)[key]
    events = sorted(by_reference(case, queries)[key], key=lambda e: (e.end, e.start, str(e.values)))
    rows = [
        (
            *(format_value(v, a.type) for v, a in zip(e.values, schema, strict=True)),
            format_interval(e, case.is_clock),
        )
        for e in events
    ]
    return format_table((*schema.names, "time"), rows)


def rewrite(path: Path, replaced: list[tuple[Expectation, list[str]]]) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for expectation, table in sorted(replaced, key=lambda pair: -pair[0].lines[0]):
        start, end = expectation.lines
        lines[start:end] = table
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
