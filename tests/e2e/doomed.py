"""The program, killed as leader in a phase of a round: `python -m tests.e2e.doomed PHASE ROUND [its options]`.

Everything else is the program as it is, but for smaller buckets, so that each member reduces some. From that round on,
the first time that it leads and is in the middle of the phase it goes no step further, waits until what it had sent
is acknowledged, and sends itself SIGKILL. "never" is a phase in which nobody is.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from desktop.__main__ import main
from desktop.bridge.lifecycle import WarmUp
from desktop.rounds.actions import Send
from desktop.rounds.messages import Announce, Commit, Plan
from desktop.trainer.worker import TrainerWorker

BUCKET_BYTES = 16_000  # ten buckets
PHASES = ("announce", "train", "ready", "plan", "exchange", "commit")
warm_up = TrainerWorker._warm_up


def doom(phase: str, round_: int) -> None:
    """From the moment that torch is imported, what trains is doomed."""

    def warm_up_doomed(self: TrainerWorker, command: WarmUp) -> None:
        warm_up(self, command)
        from desktop.trainer import training

        training.Training = doomed(training.Training, phase, round_)

    TrainerWorker._warm_up = warm_up_doomed  # type: ignore[method-assign]


def doomed(base: type, phase: str, round_: int) -> type:
    """The class that trains, with an end."""
    in_phase: dict[str, Callable[[Doomed], bool]] = {
        "announce": lambda me: me.half_sent(Announce),
        "train": lambda me: me.local.running and 2 * me.local.left <= me.local.planned,
        "ready": lambda me: me.engine.leader.machine.state == "collecting" and len(me.engine.leader._ready) == 2,
        "plan": lambda me: me.half_sent(Plan),
        "exchange": lambda me: me.half_exchanged(),
        "commit": lambda me: me.half_sent(Commit),
        "never": lambda me: False,
    }
    is_now = in_phase[phase]

    class Doomed(base):  # type: ignore[misc]
        doomed = False

        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, bucket_bytes=BUCKET_BYTES)

        def slice(self) -> float:
            if not self.doomed:
                return float(super().slice())
            if not any(map(self._transport.unsent, self._transport.peers)):
                print(f"killed in {phase} of round {self.engine.room.round + 1}", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            return 0.005

        def _one_piece(self) -> bool:
            room = self.engine.room
            self.doomed = room.leading and room.round + 1 >= round_ and is_now(self)
            return self.doomed or super()._one_piece()

        def half_sent(self, kind: type) -> bool:
            """Some of the others were sent this message, some are the next."""
            waiting = sum(isinstance(each, Send) and isinstance(each.message, kind) for each in self._actions)
            return 0 < 2 * waiting <= len(self.engine.room.view.members) - 1

        def half_exchanged(self) -> bool:
            """Some results are here, some are not."""
            exchange = self.engine.member.exchange
            return exchange is not None and 0 < 2 * len(exchange.results) <= len(exchange.plan.reducers)

    return Doomed


if __name__ == "__main__":
    doom(sys.argv.pop(1), int(sys.argv.pop(1)))
    sys.exit(main())
