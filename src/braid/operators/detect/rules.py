"""s_detect: detections over the same streams are one m-op, and share what they know of these.

    A, B, C -> detect {A.x = B.x, B.y = C.y, 256 buckets} -> Q1      A, B, C -> detect -> Q1
    A, B, C -> detect {A.x = B.x, B.y = C.y, 64 buckets}  -> Q2  =>                    -> Q2
    A, B, C -> detect {B.y = C.y, A.x = C.z}              -> Q3                        -> Q3

Everything that tells detections apart is data of the members: which inputs are compared by what,
windows, batches, buckets, thresholds. What is kept of an input is kept once for all of them that
have the same events of it, the same window and the same batches, and a synopsis once for all that
also ask the same attributes with as many buckets.

>>> S_DETECT.name
's_detect'
"""

from __future__ import annotations

from braid.plan.sharing import DETECT, Operator, Rule, Sharing


def is_detection(operator: Operator) -> bool:
    return operator.kind == DETECT


def share(operator: Operator, sharing: Sharing) -> Sharing:
    inputs = tuple(channel.signature for channel in operator.inputs)
    return sharing.by("s_detect", (DETECT, inputs, operator.definition))


S_DETECT = Rule("s_detect", is_detection, share, "detections over the same streams share synopses")
