"""Detections by key: each value of PARTITION BY has windows, batches and answers of its own.

The law for it: what a member puts out for a key are the answers of `reference/detection.py` to the
events of that key alone, with the key in front. Nothing here is done for each key in Python.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

from braid.algebra.types import Kind, kind_of
from braid.operators.core.base import Context, Held, State
from braid.operators.core.columns import Rows
from braid.operators.core.values import Words
from braid.operators.detect.arrivals import Arriving
from braid.operators.detect.base_log import Ended, LogKey
from braid.operators.detect.key_slots import SlotTable
from braid.operators.detect.keyed_log import KeyedLog
from braid.operators.detect.logic import DetectionLogic
from braid.operators.detect.query import Detector, KeyedDetector
from braid.operators.detect.spec import DetectionRecipe, DetectionSpec
from braid.plan.layout import Layout

#: How what is saved of the keys is called.
_TABLE = "slots/"


class KeyedDetections(DetectionLogic[KeyedLog]):
    def __init__(self, spec: DetectionSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._table = SlotTable(len(spec.partition))
        #: The keys that something has come to, or whose batches have ended, in this round.
        self._touched: list[np.ndarray] = []
        self._others: dict[LogKey, set[LogKey]] | None = None

    def _make_log(self, key: LogKey, node: int) -> KeyedLog:
        return KeyedLog(key, node, self._spec.unit, self._table)

    def _make_detector(self, recipe: DetectionRecipe, logs: list[KeyedLog]) -> Detector[KeyedLog]:
        return KeyedDetector(recipe, logs, self._table)

    def _take(self, log: KeyedLog, arriving: Arriving, bound: int) -> Ended:
        slots = self._table.of(*arriving.keys_of(log))
        ended = log.take(*arriving.of(log), slots, bound)
        self._touched += [slots, ended.slots.astype(np.int32)]
        return ended

    def _forget(self, keys: Collection[LogKey], readers: Collection[int], bound: int) -> None:
        """Drop what no batch of the same key can need that is under way with another input, or that
        may begin. Between sweeps only keys are looked at that something came to."""
        sweeps = self._is_time_to_sweep(bound)
        slots = self._slots_to_look_at(sweeps)
        since = {key: log.waits_since(slots) for key, log in self._logs.items()}
        for key, log in self._logs.items():
            horizons = np.full(len(slots), bound, np.int64)
            for other in self._related()[key]:
                horizons = np.minimum(horizons, since[other])
            log.forget(slots, horizons)
        if sweeps:
            self._sweep()

    def _slots_to_look_at(self, sweeps: bool) -> np.ndarray:
        touched, self._touched = self._touched, []
        if sweeps or not touched:
            used = self._table.used if sweeps else np.zeros(0, np.bool_)
            return np.flatnonzero(used).astype(np.int32)
        return self._table.together(np.concatenate(touched))[1]

    def _related(self) -> dict[LogKey, set[LogKey]]:
        """For each log those that detections compare it with."""
        if self._others is None:
            self._others = {key: set() for key in self._logs}
            for detector in self._detectors.values():
                keys = [log.key for log in detector.logs]
                for number, key in enumerate(keys):
                    self._others[key].update(keys[:number], keys[number + 1 :])
        return self._others

    def _detector(self, *args: Any) -> Detector[KeyedLog]:
        self._others = None
        return super()._detector(*args)

    def _remove(self, number: int) -> None:
        self._others = None
        super()._remove(number)

    def _sweep(self) -> None:
        """Keys that nothing is kept of give back their slots, and logs the room they do not need."""
        needed = np.zeros(self._table.size, np.bool_)
        for log in self._logs.values():
            needed |= log.needed
            log.shrink()
        self._table.keep(needed)

    def _write_keys(self, rows: Rows, slots: Words) -> None:
        layout = self._spec.output.layout
        for place, attribute in enumerate(self._spec.partition):
            rows[:, layout.word(attribute.name)] = self._table.keys[slots, place]

    # ---- state ----

    def snapshot(self) -> State:
        table = {_TABLE + name: array for name, array in self._table.saved().items()}
        return super().snapshot() | table

    def restore(self, state: State) -> None:
        own = {n.removeprefix(_TABLE): v for n, v in state.items() if n.startswith(_TABLE)}
        if own:
            self._table.load(own)
        super().restore(state)

    @property
    def state_bytes(self) -> int:
        return super().state_bytes + self._table.nbytes

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"values": self._table.count}

    def _text_columns(self, log: KeyedLog) -> list[int]:
        schema = self._spec.sources[log.key.source].shape.schema
        names = enumerate(log.key_columns)
        return [place for place, name in names if kind_of(schema.type_of(name)) is Kind.STRING]

    def _key_places(self) -> tuple[np.ndarray, ...]:
        """Where the texts of keys are: rows and columns of the table."""
        kinds = [kind_of(attribute.type) for attribute in self._spec.partition]
        own = [place for place, kind in enumerate(kinds) if kind is Kind.STRING]
        return np.ix_(np.flatnonzero(self._table.used), np.array(own, np.int64))

    def _texts(self) -> list[Rows]:
        """Columns that are codes of strings: of the keys, then of what is kept to verify by."""
        logs = [log.texts(self._text_columns(log)) for log in self._logs.values()]
        return [self._table.keys[self._key_places()], *logs]

    def held(self) -> Held | None:
        codes = [part.ravel() for part in self._texts()]
        total = sum(map(len, codes))
        if not total:
            return None
        layout = Layout(("text",))
        rows = np.zeros((total, layout.width), np.int64)
        rows[:, layout.base] = np.concatenate(codes)
        return Held(rows, layout, (pa.string(),))

    def replace_held(self, rows: Rows) -> None:
        left = rows[:, Layout(("text",)).base]
        parts = []
        for part in self._texts():
            parts.append(left[: part.size].reshape(part.shape))
            left = left[part.size :]
        self._table.keys[self._key_places()] = parts[0]
        self._table.rehash()
        for log, words in zip(self._logs.values(), parts[1:], strict=True):
            log.set_texts(self._text_columns(log), words)
