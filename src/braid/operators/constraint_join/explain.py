"""What `explain` shows of constraint joins: the rows that they hold, and the constraints that they use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def constraint_lines(found: dict[str, Any]) -> Iterator[str]:
    """Of each input: the rows in memory and on disk; then the constraints."""
    for number, (window, held, done) in enumerate(
        zip(found["windows"], found["inputs"], found["one_result"], strict=True)
    ):
        inside = "its rows come and go" if window == "changes" else f"window {window} inside"
        line = f"{number}: {inside}; holds {held['rows']:,} rows"
        if held["aside"]:
            line += f" in memory and {held['aside']:,} on disk"
        if held["evicted"]:
            line += f", {held['evicted']:,} evicted early, {held['returned']:,} reloaded"
        if done:
            when = "its only result" if found.get("only_coming", True) else "its result has gone"
            line += f"; a row leaves after {when}"
        yield line
    if not found["watches"]:
        yield _without(found)
    for constraint in found["constraints"]:
        shown = constraint["rows"] or constraint["refused"] or constraint["k"] is not None
        if shown or "declared" in constraint:
            yield _constraint_line(constraint)
            if len(constraint["history"]) > 1:
                yield f"  its k over time: {_history(constraint['history'])}"
    for name, at in found["broken_keys"].items():
        yield f"constraint {name}: two events have one key, the second at {at}; not used"
    if found["lost"]:
        yield f"about {found['lost']:,} results were lost"
    for what in found.get("lossy", ()):
        yield f"not used, because too many results were lost: {what}"


def _without(found: dict[str, Any]) -> str:
    """Why no constraint is used."""
    if found["looks"] or found["looked_in_vain"]:
        times = f"; {found['looked_in_vain']} samples found none" if found["looked_in_vain"] else ""
        how = "samples a few keys" if found["looks"] else "samples again later"
        return (
            f"joined without constraints, because none is known to be worth its time: {how}{times}"
        )
    if found["mode"] != "exact":
        return "joined without constraints so far: no event has come"
    return f"too little is held to use constraints: less than {found['spill_above']:,} bytes"


def watch_line(found: dict[str, Any]) -> str:
    """Whether a declared constraint holds, as its streams show."""
    broken, unused = found["broken"], _unused(found["unused"])
    if broken is None:
        return f"holds so far; remembers {found['values']:,} values{unused}"
    which = f"event {broken['event']:,} of {broken['stream']}"
    value = f"{broken['attribute']} = {broken['value']} at {broken['at']}"
    how = "the second of its key"
    if broken["distance"] is not None:
        how = f"by {broken['distance']:,} {broken['unit']}"
    return f"broken first by {which}, {value}, {how}; not watched{unused}"


def _unused(queries: dict[str, str]) -> str:
    """Whose joins don't use a constraint, and why."""
    whose: dict[str, list[str]] = {}
    for query, why in queries.items():
        whose.setdefault(why, []).append(query)
    return "".join(f"; not used by {', '.join(names)}: {why}" for why, names in whose.items())


#: Values of k that are shown.
_SHOWN = 8


def _history(history: list[list[int | None]]) -> str:
    """The last values of k and since when each was used."""
    steps = [f"{'none' if k is None else f'{k:,}'} from {at}" for at, k in history[-_SHOWN:]]
    return ", ".join([*(["..."] if len(history) > _SHOWN else []), *steps])


def _constraint_line(constraint: dict[str, Any]) -> str:
    number, k = constraint["input"], constraint["k"]
    if constraint["kind"] == "references":
        what = f"rows of {constraint['waiting']} find their partners in {number}"
        if constraint["waiting"] == number:
            # Of relations, the rows of all inputs count.
            what = f"rows of {number} are in their first result"
    else:
        what = f"{number}.{constraint['column']} is {constraint['kind']}"
    if "declared" in constraint:
        what += f" (declared: {constraint['declared']})"
    within = "not at present" if k is None else f"within {k:,} {constraint['unit']}"
    line = f"{what} {within}: {constraint['rows']:,} rows evicted, {constraint['bytes']:,} bytes"
    if constraint["saved"] or constraint["cost"]:
        line += f"; saves {constraint['saved']:.1%} of memory for {constraint['cost']:.1%} of time"
    if constraint["refused"]:
        line += f"; given up {constraint['refused']} times, because it was not worth its time"
    if "broken" in constraint:
        broken = constraint["broken"]
        line += f"; broken first by event {broken['event']} of its stream, at {broken['at']}"
    return line
