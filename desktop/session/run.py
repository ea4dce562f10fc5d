"""One run of training as the window steers it: started, watched, stopped, and ended by force if need be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from desktop.bridge import lifecycle as life
from desktop.session.record import Record
from desktop.session.trainer_thread import TrainerThread
from desktop.settings import Settings

BUSY = ("loading", "waiting", "training", "exchanging", "syncing", "stopping")
Ended = Callable[[life.Failed | None], None]
CHECKPOINT_S = 1.2  # for saving the model when the window is closed in the middle of training


class Run:
    """Turns Start and Stop into commands, and what the trainer says of them into the record.

        idle -> loading (torch is not here yet) -> waiting | training | exchanging | syncing -> done
                                                        |-> stopping -> stopped
                                                        |-> failed
    """

    def __init__(self, record: Record, trainer: TrainerThread, settings: Settings, ended: Ended) -> None:
        self._record, self._trainer, self._settings, self._tell = record, trainer, settings, ended
        self._timer: asyncio.TimerHandle | None = None
        self._over = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Whether something would be lost by beginning anything else."""
        return self._record.state in BUSY

    @property
    def under_way(self) -> bool:
        """Whether the trainer is at it."""
        return self.busy and self._record.begun is not None

    def begin(self, order: life.Start) -> None:
        """Start training."""
        self._record.reset()
        self._record.state = "waiting"
        self._over.clear()
        self._trainer.do(order)

    def begun(self, said: life.Begun) -> None:
        """The trainer is at it."""
        self._over.clear()
        self._record.begin(said)

    def stop(self) -> None:
        """Ask the trainer to stop; one that does not answer in time is ended by force."""
        if not self.busy or self._record.state == "stopping":
            return
        if self._record.state == "loading":
            self._record.state = "idle"
            return
        self._record.state = "stopping"
        self._trainer.do(life.Stop())
        self._timer = asyncio.get_running_loop().call_later(self._settings.stop_timeout_s, self._force)

    def _force(self) -> None:
        self._timer = None
        self._trainer.force()
        self._trainer.do(life.WarmUp(threads=self._settings.cpu_share))
        seconds = self._settings.stop_timeout_s
        self.failed(life.Failed(sentence=f"Training did not stop within {seconds:g} s and was ended by force. "
                                         "The room was left; choose your data again to go on.", lost_data=True))

    def failed(self, said: life.Failed) -> None:
        """Training ended with an error."""
        self._record.fault("bad", said.sentence)
        self._record.state = "failed"
        self._end(said)

    def final_model(self, said: life.FinalModel) -> None:
        """Training ended, by itself or by Stop."""
        self._record.ended(said)
        self._end(None)

    def _end(self, failed: life.Failed | None) -> None:
        self.cancel_timer()
        self._over.set()
        self._tell(failed)

    def cancel_timer(self) -> None:
        """No force any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def checkpoint(self) -> None:
        """The window is being closed: stop, and leave a moment for the model to be saved."""
        if self.under_way:
            self.stop()
            try:
                async with asyncio.timeout(CHECKPOINT_S):
                    await self._over.wait()
            except TimeoutError:
                self._record.fault("care", "The window was closed before the model was saved.")
        self.cancel_timer()
