"""Cayuga's technical benchmark, template NonDeterministic: any three events with the primary value in time.

Time per event against the number of subscriptions (figure 4.13 a), and the same engine without any
sharing. Answers are compared on subscriptions that were worked out one by one.
"""

from __future__ import annotations

from benchmarks.subscribed import growth_case

CASE = growth_case("nondeterministic", "patterns of any three events with one value in common")
