"""The `filter` template by hand: a loop that knows nothing but this one template.

What a good programmer would write for these subscriptions and no others: the pair of equalities
of the first step is looked up in a table, waiting patterns hang in chains by primary attribute
and value, and all constants of a subscription lie side by side. It reads plain arrays and
keeps three numbers of each match. Braid reads tables and knows no template beforehand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.cayuga import ATTRIBUTES, BLOCK, Events, Parameters, Step, subscriptions
from benchmarks.workloads import Floats, Ints
from braid.jit.runtime import kernel

#: Words of a step: two attributes with their values, two attributes of ranges.
WIDTH = 6


class Rules(NamedTuple):
    """Subscriptions in order of the equalities of their first step."""

    number: Ints  # as the subscriptions are numbered
    chain: Ints  # primary attribute and value
    words: Ints  # (n, 3, WIDTH)
    bounds: Floats  # (n, 3, 4): low, high, low, high
    begin: Ints  # by pair of attributes and of values, the first subscription
    pairs: Ints  # (6, 2): the attributes of each pair


class Waiting(NamedTuple):
    """Patterns under way: a pool of slots in chains; `free[0]` counts the slots in use."""

    head: Ints  # by primary attribute and value: a slot or -1
    next: Ints
    rule: Ints
    start: Ints
    step: Ints
    spare: Ints  # slots to use again
    counts: Ints  # slots ever used, spare slots


class Matches(NamedTuple):
    rule: Ints
    start: Ints
    end: Ints


def compile_rules(count: int, parameters: Parameters, seen: Events) -> Rules:
    """Lay out the first `count` subscriptions."""
    blocks = [subscriptions(b, parameters, seen) for b in range(-(-count // BLOCK))]
    primary = np.concatenate([b.primary for b in blocks])[:count]
    value = np.concatenate([b.value for b in blocks])[:count]
    words, bounds = [], []
    for step in range(3):
        whole = [_laid_out(b.steps[step], parameters) for b in blocks]
        words.append(np.concatenate([w for w, _ in whole])[:count])
        bounds.append(np.concatenate([b for _, b in whole])[:count])
    pairs = np.array([(a, b) for a in range(ATTRIBUTES) for b in range(a + 1, ATTRIBUTES)])
    first, domain = words[0], parameters.domain
    pair = np.zeros((ATTRIBUTES, ATTRIBUTES), np.int64)
    pair[pairs[:, 0], pairs[:, 1]] = np.arange(len(pairs))
    key = (pair[first[:, 0], first[:, 1]] * domain + first[:, 2]) * domain + first[:, 3]
    order = np.argsort(key, kind="stable")
    begin = np.searchsorted(key[order], np.arange(len(pairs) * domain * domain + 1))
    return Rules(
        order,
        (primary * domain + value)[order],
        np.stack(words, axis=1)[order].copy(),
        np.stack(bounds, axis=1)[order].copy(),
        begin,
        pairs,
    )


def _laid_out(step: Step, parameters: Parameters) -> tuple[Ints, Floats]:
    low, high = parameters.bounds(step.number)
    bounds = np.column_stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]])
    return np.column_stack([step.equal, step.value, step.range]), bounds


def waiting(slots: int, parameters: Parameters) -> Waiting:
    chains = ATTRIBUTES * parameters.domain
    empty = [np.zeros(slots, np.int64) for _ in range(5)]
    return Waiting(np.full(chains, -1, np.int64), *empty, np.zeros(2, np.int64))


def matches(room: int) -> Matches:
    return Matches(*(np.zeros(room, np.int64) for _ in range(3)))


@kernel()
def _ranges_hold(bounds: Any, words: Any, continuous: Any, rule: int, step: int, row: int) -> bool:
    one = continuous[row, words[rule, step, 4]]
    if one < bounds[rule, step, 0] or one > bounds[rule, step, 1]:
        return False
    two = continuous[row, words[rule, step, 5]]
    return two >= bounds[rule, step, 2] and two <= bounds[rule, step, 3]


@kernel()
def _equalities_hold(words: Any, discrete: Any, rule: int, step: int, row: int) -> bool:
    return (
        discrete[row, words[rule, step, 0]] == words[rule, step, 2]
        and discrete[row, words[rule, step, 1]] == words[rule, step, 3]
    )


@kernel()
def find_matches(
    discrete: Any, continuous: Any, rules: Any, held: Any, found: Any, domain: int, duration: int
) -> int:
    """How many matches there are; as many as there is room for are in `found`. -1: out of slots."""
    count = 0
    for row in range(len(discrete)):
        for attribute in range(ATTRIBUTES):
            chain = attribute * domain + discrete[row, attribute]
            slot, kept = held.head[chain], -1
            while slot >= 0:
                after, rule = held.next[slot], held.rule[slot]
                step = held.step[slot]
                goes_on = (
                    row - held.start[slot] <= duration
                    and _equalities_hold(rules.words, discrete, rule, step, row)
                    and _ranges_hold(rules.bounds, rules.words, continuous, rule, step, row)
                )
                if goes_on and step == 1:
                    held.step[slot] = 2
                    held.next[slot] = kept
                    kept = slot
                else:
                    if goes_on:
                        if count < len(found.rule):
                            found.rule[count] = rules.number[rule]
                            found.start[count] = held.start[slot]
                            found.end[count] = row
                        count += 1
                    held.spare[held.counts[1]] = slot
                    held.counts[1] += 1
                slot = after
            held.head[chain] = kept
        for pair in range(len(rules.pairs)):
            one = discrete[row, rules.pairs[pair, 0]]
            two = discrete[row, rules.pairs[pair, 1]]
            key = (pair * domain + one) * domain + two
            for rule in range(rules.begin[key], rules.begin[key + 1]):
                if not _ranges_hold(rules.bounds, rules.words, continuous, rule, 0, row):
                    continue
                if held.counts[1] > 0:
                    held.counts[1] -= 1
                    slot = held.spare[held.counts[1]]
                elif held.counts[0] < len(held.next):
                    slot = held.counts[0]
                    held.counts[0] += 1
                else:
                    return -1
                chain = rules.chain[rule]
                held.rule[slot], held.start[slot], held.step[slot] = rule, row, 1
                held.next[slot] = held.head[chain]
                held.head[chain] = slot
    return count
