"""The reference semantics: the definitions in plain Python, slow and obvious.

Everything that is fast is checked against this. It imports the algebra only, so that no
mistake can be shared with what it judges.
"""

from __future__ import annotations

from braid.reference.acceptance import Acceptance
from braid.reference.constraints import Arrival, Counterexample, adherence, counterexample, keeps
from braid.reference.events import Bindings, Event, Udfs
from braid.reference.groups import Overflow
from braid.reference.operators import Streams, TooMany, evaluate
from braid.reference.ordering import order_key
from braid.reference.queries import Answers, answer
from braid.reference.scalars import holds, value
from braid.reference.tables import events_from_result, events_from_table, table_from_events

__all__ = [
    "Acceptance",
    "Answers",
    "Arrival",
    "Bindings",
    "Counterexample",
    "Event",
    "Overflow",
    "Streams",
    "TooMany",
    "Udfs",
    "adherence",
    "answer",
    "counterexample",
    "evaluate",
    "events_from_result",
    "events_from_table",
    "holds",
    "keeps",
    "order_key",
    "table_from_events",
    "value",
]
