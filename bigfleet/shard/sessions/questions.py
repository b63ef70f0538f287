"""What operators were asked and have not answered: kept over the end of a session, and asked again in the next one."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bigfleet.api.v1alpha1 import shard_pb2
from bigfleet.errors import BigFleetError


class NoSession(BigFleetError):
    """The cluster's operator is not connected, or went away and did not come back before it had answered."""


@dataclass(frozen=True)
class _Question:
    # The frame as it should be sent now: what is left of a grace gets shorter.
    frame: Callable[[], shard_pb2.ShardMessage]
    answer: asyncio.Future[Any]
    # Whether it stays open for as long as the asker waits, however long the operator is away.
    patient: bool
    # On the loop's clock.
    asked_at: float


class Questions:
    """Open questions per cluster. An answer counts only if it comes from the cluster that was asked."""

    def __init__(self, reconnect_seconds: float) -> None:
        self._reconnect_seconds = reconnect_seconds
        self._open: dict[str, dict[str, _Question]] = {}
        self._absences: dict[str, asyncio.TimerHandle] = {}

    @contextmanager
    def ask(
        self, cluster: str, key: str, frame: Callable[[], shard_pb2.ShardMessage], *, patient: bool
    ) -> Iterator[asyncio.Future[Any]]:
        """Keep a question open inside the block; the future is its answer, or NoSession."""
        loop = asyncio.get_running_loop()
        question = _Question(frame, loop.create_future(), patient, loop.time())
        self._open.setdefault(cluster, {})[key] = question
        try:
            yield question.answer
        finally:
            del self._open[cluster][key]
            if not self._open[cluster]:
                del self._open[cluster]

    def answer(self, cluster: str, key: str, answer: object) -> None:
        """Settle a question, with an exception if the answer is one. An answer to no open question is dropped."""
        question = self._open.get(cluster, {}).get(key)
        if question is None or question.answer.done():
            return
        if isinstance(answer, Exception):
            question.answer.set_exception(answer)
        else:
            question.answer.set_result(answer)

    def unanswered_seconds(self) -> dict[str, float]:
        """Per cluster, how long the oldest question waits that could be answered at once."""
        now = asyncio.get_running_loop().time()
        return {
            cluster: now - min(asked)
            for cluster, questions in self._open.items()
            if (asked := [one.asked_at for one in questions.values() if not one.patient and not one.answer.done()])
        }

    def operator_came(self, cluster: str) -> dict[str, shard_pb2.ShardMessage]:
        """What to ask a new session again, by key."""
        absence = self._absences.pop(cluster, None)
        if absence:
            absence.cancel()
        questions = self._open.get(cluster, {})
        return {key: question.frame() for key, question in questions.items() if not question.answer.done()}

    def operator_left(self, cluster: str) -> None:
        """Give its operator a while to come back before machines that wait for it are released."""
        loop = asyncio.get_running_loop()
        self._absences[cluster] = loop.call_later(self._reconnect_seconds, self._give_up, cluster)

    def _give_up(self, cluster: str) -> None:
        del self._absences[cluster]
        for key, question in self._open.get(cluster, {}).items():
            if not question.patient:
                self.answer(cluster, key, NoSession(cluster))
