"""Detections: for each batch of an input, whether a join has a result, from synopses alone.

Members read the same channels and differ in all else. What is kept of an input is a *log*
(`log.py`), which members share that have the same events, window and batches; a member
itself keeps nothing (`query.py`). With PARTITION BY a log has the events of all keys, each
with windows and batches of its own (`keyed_log.py`).

The law: what a member puts out are the answers of `reference/detection.py`, numbers and all.
Nothing is forgotten that a batch which waits may still need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Generic

import numpy as np
import pyarrow as pa

from braid.algebra.types import Kind, kind_of
from braid.operators.core.base import Context, Held, State
from braid.operators.core.batch import Batch
from braid.operators.core.columns import Rows
from braid.operators.core.constants import Constants
from braid.operators.core.membership import Origin, nobody, origin_of
from braid.operators.core.nodes import Nodes, signatures
from braid.operators.core.roles import LimitsMemory
from braid.operators.core.values import Words
from braid.operators.detect.arrivals import Arriving
from braid.operators.detect.base_log import NOTHING, Ended, LogKey
from braid.operators.detect.kernels.answer import TALLY
from braid.operators.detect.log import Log
from braid.operators.detect.query import Answers, Detector, L, Round, WholeDetector
from braid.operators.detect.spec import DetectionRecipe, DetectionSpec
from braid.operators.window.logic import seen_since
from braid.plan.layout import END, MASK, START, Layout

#: How many equations `describe` shows.
_SHOWN = 4
#: After so many rounds what has left windows is dropped of logs that nothing comes to as well.
_SWEEP = 32
#: An instant after all others: the input has ended.
_END = 2**62


class DetectionLogic(LimitsMemory, ABC, Generic[L]):
    """What all detections do; `WholeDetections` and `KeyedDetections` say what logs are theirs."""

    takes_sets = False
    takes_bits = False
    saves = True

    def __init__(self, spec: DetectionSpec, context: Context) -> None:
        self._spec = spec
        self._context = context
        self.nodes = Nodes()
        self._detectors: dict[int, Detector[L]] = {}
        self._logs: dict[LogKey, L] = {}
        #: For each member the codes of what its inputs are called.
        self._labels: dict[int, Words] = {}
        self._rounds = 0
        #: Members that would keep something of more events than the budget, and since when.
        self.stopped: dict[int, int] = {}
        #: Those of them whose MEMORY was too little.
        self.out_of_memory: set[int] = set()

    # ---- members ----

    def admit(
        self, recipe: DetectionRecipe, constants: Constants, origins: Sequence[Origin | None]
    ) -> Origin:
        count = constants.count
        sources = [origin or nobody(count) for origin in origins]
        sizes = [self._sizes(size, constants) for size in recipe.sizes]
        columns = [column for s in sources for column in s.signatures.T.copy()]
        what = ("detect", recipe)
        numbers, new = self.nodes.add(signatures(what, count, [*columns, *sizes]))
        for row in new.tolist():
            own = [int(size[row]) for size in sizes]
            number = int(numbers[row])
            detector = self._detectors[number] = self._detector(recipe, own, sources, row)
            for log in detector.logs:
                log.readers.add(number)
            codes = map(self._context.values.strings.pin, recipe.settings.labels)
            self._labels[number] = np.array(list(codes), np.int64)
        return origin_of(self.nodes, numbers)

    @staticmethod
    def _sizes(size: Any, constants: Constants) -> Words:
        words = np.full(1, size, np.int64) if isinstance(size, int) else constants.words(size)
        return np.broadcast_to(words, (constants.count,)).copy()

    def _detector(
        self, recipe: DetectionRecipe, sizes: list[int], sources: Sequence[Origin], row: int
    ) -> Detector[L]:
        settings = recipe.settings
        logs = []
        by = recipe.by or ((),) * len(sizes)
        for source, kind, size, own in zip(recipe.sources, recipe.kinds, sizes, by, strict=True):
            origin = sources[source]
            a, b = origin.signatures[row].tolist()
            key = LogKey(source, (a, b), kind, size, settings.batch, settings.within, own)
            if key not in self._logs:
                self._logs[key] = self._make_log(key, int(origin.numbers[row]))
            logs.append(self._logs[key])
        for log in logs:
            log.uses += 1
        return self._make_detector(recipe, logs)

    @abstractmethod
    def _make_log(self, key: LogKey, node: int) -> L: ...

    @abstractmethod
    def _make_detector(self, recipe: DetectionRecipe, logs: list[L]) -> Detector[L]: ...

    def dismiss(self, numbers: Words) -> Words:
        """Members leave; the output nodes that nobody uses any more."""
        gone = self.nodes.release(numbers)
        for number in gone.tolist():
            self.stopped.pop(number, None)
            self.out_of_memory.discard(number)
            self._remove(number)
        return gone

    def _remove(self, number: int) -> None:
        """Free what only this member needed; one that has given up needs nothing."""
        detector = self._detectors.pop(number, None)
        self._labels.pop(number, None)
        for log in detector.logs if detector is not None else ():
            log.uses -= 1
            log.readers.discard(number)
            if not log.uses:
                self._logs.pop(log.key, None)

    # ---- events ----

    def on_batch(self, inputs: Sequence[Batch], bound: int) -> Batch:
        """Only logs that something comes to, or whose batch ends, and those who read them."""
        sources = zip(inputs, self._spec.sources, strict=True)
        batches = [seen_since(batch, s.membered, self._spec.birth) for batch, s in sources]
        self._arriving = [
            Arriving(batch, source, self._context.values)
            for batch, source in zip(batches, self._spec.sources, strict=True)
        ]
        ended = {
            key: self._take(log, self._arriving[key.source], bound)
            for key, log in self._logs.items()
            if self._arriving[key.source].has(log.node) or log.is_due(bound)
        }
        readers = sorted({n for key in ended for n in self._logs[key].readers})
        round_ = Round()
        found = [
            (
                number,
                detector.answer([ended.get(g.key, NOTHING) for g in detector.logs], round_),
            )
            for number in readers
            if any(len(ended[k].began) for k in self._keys_of(number) if k in ended)
            for detector in (self._detectors[number],)
        ]
        written = self._written(found)
        self._rounds += 1
        if self._is_time_to_sweep(bound):
            self._forget(self._logs, self._detectors, bound)
        else:
            self._forget(ended, readers, bound)
        self._give_up(readers, bound)
        return written

    def _is_time_to_sweep(self, bound: int) -> bool:
        return self._rounds % _SWEEP == 0 or bound >= _END

    @abstractmethod
    def _take(self, log: L, arriving: Arriving, bound: int) -> Ended:
        """What comes to a log; the batches that have ended."""

    def _keys_of(self, number: int) -> list[LogKey]:
        return [log.key for log in self._detectors[number].logs]

    @abstractmethod
    def _forget(self, keys: Collection[LogKey], readers: Collection[int], bound: int) -> None:
        """Drop what no batch can need that is under way with another input, or that may begin."""

    def _give_up(self, readers: Collection[int], bound: int) -> None:
        """Members that keep something of too many events, or more bytes than their MEMORY, put out
        nothing from now on."""
        budget = self._context.instance_budget
        held = {n: sum(log.count for log in self._detectors[n].logs) for n in readers}
        short = {n for n in readers if self._detectors[n].holds_too_much}
        for number in [n for n, count in held.items() if count > budget or n in short]:
            self._remove(number)
            self.stopped[number] = bound
        self.out_of_memory |= short

    def _written(self, found: list[tuple[int, Answers]]) -> Batch:
        """The answers of all members as rows, in order of time."""
        layout = self._spec.output.layout
        found = [(number, answers) for number, answers in found if len(answers.inputs)]
        if not found:
            none = np.empty(0, np.int32)
            return Batch(np.empty((0, layout.width), np.int64), none, none)
        lengths = [len(answers.inputs) for _, answers in found]
        said = Answers(
            *(np.concatenate(parts) for parts in zip(*(a for _, a in found), strict=True))
        )
        rows = np.zeros((len(said.inputs), layout.width), np.int64)
        rows[:, START] = rows[:, END] = said.instants
        rows[:, layout.word("input")] = np.concatenate(
            [self._labels[number][answers.inputs] for number, answers in found]
        )
        counts = [self._detectors[number].recipe.settings.counts for number, _ in found]
        known = np.repeat(counts, lengths)
        rows[:, layout.word("bound")] = np.where(known, said.bounds, 0)
        rows[:, MASK] = np.where(known, 0, 1 << layout.column("bound"))
        rows[:, layout.word("verified")] = said.verified
        rows[:, layout.word("packing")] = said.packing.view(np.int64)
        self._write_keys(rows, said.slots)
        members = np.repeat(np.array([number for number, _ in found], np.int32), lengths)
        order = np.argsort(rows[:, END], kind="stable")
        return Batch(rows[order], np.arange(len(rows), dtype=np.int32), members[order])

    def _write_keys(self, rows: Rows, slots: Words) -> None:
        """The keys that answers are of, if they are of keys."""

    # ---- state ----

    def snapshot(self) -> State:
        state: State = {}
        for log in self._logs.values():
            name = self._name(log.key)
            state |= {f"{name}/{part}": array for part, array in log.saved().items()}
        nodes, budget = list(self.stopped), self._context.instance_budget
        # One that was out of memory stays so, whatever the budget.
        times = np.array(
            [
                (at, _END if node in self.out_of_memory else budget)
                for node, at in self.stopped.items()
            ],
            np.int64,
        ).reshape(-1, 2)
        state["stopped"] = np.concatenate([self.nodes.signatures[nodes], times], axis=1)
        return state

    def restore(self, state: State) -> None:
        """Take up what was saved of the logs that members have."""
        for log in self._logs.values():
            name = self._name(log.key) + "/"
            own = {key[len(name) :]: v for key, v in state.items() if key.startswith(name)}
            if own:
                log.load(own)
        self._restore_stops(state["stopped"].reshape(-1, 4))

    def _restore_stops(self, stops: np.ndarray) -> None:
        """With a larger budget a member goes on from now; what it kept is gone."""
        found = self.nodes.find(np.ascontiguousarray(stops[:, :2])).tolist()
        for number, (at, budget) in zip(found, stops[:, 2:].tolist(), strict=True):
            if number >= 0 and self._context.instance_budget <= budget:
                self._remove(number)
                self.stopped[number] = at
                if budget == _END:
                    self.out_of_memory.add(number)

    @staticmethod
    def _name(key: LogKey) -> str:
        a, b = key.content
        by = "".join(f".{name}" for name in key.by)
        return f"{key.source}.{a}.{b}.{key.kind}.{key.size}.{key.batch}.{key.within}{by}"

    @abstractmethod
    def held(self) -> Held | None: ...

    @abstractmethod
    def replace_held(self, rows: Rows) -> None: ...

    def forget_codes(self) -> None:
        """Codes are in what is kept to verify, and nowhere else."""

    @property
    def instances(self) -> int:
        """The events of which something is kept."""
        return sum(log.count for log in self._logs.values())

    @property
    def state_bytes(self) -> int:
        return sum(log.synopsis_bytes + log.key_bytes for log in self._logs.values())

    @property
    def index_bytes(self) -> int:
        return self.nodes.nbytes + sum(d.nbytes for d in self._detectors.values())

    def describe(self) -> dict[str, Any]:
        logs, detectors = list(self._logs.values()), list(self._detectors.values())
        texts = list(dict.fromkeys(t for d in detectors for t in d.recipe.equations()))
        tally = sum((d.tally for d in detectors), np.zeros(TALLY, np.int64))
        names = ("batches", "zeros", "verified", "refuted", "unverified")
        return {
            "detections": len(detectors),
            "equations": texts[:_SHOWN],
            "more": max(0, len(texts) - _SHOWN),
            "logs": len(logs),
            "synopses": sum(len(log.dimensions) for log in logs),
            "synopsis_bytes": sum(log.synopsis_bytes for log in logs),
            "keys": sum(log.count for log in logs if log.key_columns),
            "key_bytes": sum(log.key_bytes for log in logs),
            **dict(zip(names, tally.tolist(), strict=True)),
        }


class WholeDetections(DetectionLogic[Log]):
    """Of all events of their inputs."""

    def _make_log(self, key: LogKey, node: int) -> Log:
        return Log(key, node, self._spec.unit)

    def _make_detector(self, recipe: DetectionRecipe, logs: list[Log]) -> Detector[Log]:
        return WholeDetector(recipe, logs)

    def _take(self, log: Log, arriving: Arriving, bound: int) -> Ended:
        return log.take(*arriving.of(log), bound)

    def _forget(self, keys: Collection[LogKey], readers: Collection[int], bound: int) -> None:
        horizons = dict.fromkeys(keys, bound)
        for reader in readers:
            detector = self._detectors[reader]
            since = [log.waits_since for log in detector.logs]
            for number, log in enumerate(detector.logs):
                if log.key in horizons:
                    waiting = [s for i, s in enumerate(since) if i != number and s is not None]
                    horizons[log.key] = min(horizons[log.key], *waiting, bound)
        for key, horizon in horizons.items():
            self._logs[key].forget(horizon)

    def _texts(self) -> Iterator[Words]:
        """The columns of kept events that are codes of strings, as they lie."""
        for log in self._logs.values():
            schema = self._spec.sources[log.key.source].shape.schema
            for place, name in enumerate(log.keys.columns if log.keys is not None else ()):
                if log.keys is not None and kind_of(schema.type_of(name)) is Kind.STRING:
                    yield log.keys.codes(place, log.count)

    def held(self) -> Held | None:
        codes = list(self._texts())
        if not codes:
            return None
        layout = Layout(("text",))
        rows = np.zeros((sum(map(len, codes)), layout.width), np.int64)
        rows[:, layout.base] = np.concatenate(codes)
        return Held(rows, layout, (pa.string(),))

    def replace_held(self, rows: Rows) -> None:
        begin, word = 0, Layout(("text",)).base
        for codes in self._texts():
            codes[:] = rows[begin : begin + len(codes), word]
            begin += len(codes)
        for log in self._logs.values():
            if log.keys is not None:
                log.keys.rehang(log.count, log.first)
