"""Cayuga's technical benchmark, template LinearStat: three consecutive events, static predicates only.

Time per event against the number of subscriptions (figure 4.13 a), and the same engine without any
sharing. Answers are compared on subscriptions that were worked out one by one.
"""

from __future__ import annotations

from benchmarks.subscribed import growth_case

CASE = growth_case("linear_stat", "patterns of three consecutive events with static predicates")
