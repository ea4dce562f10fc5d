"""A room of three in which one trains three times slower than the deadline allows: late work dropped, and carried.

`python -m tests.trainer.test_late` prints the losses as a table.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from desktop.bridge.lifecycle import Noted
from desktop.library.evaluate import evaluate
from desktop.rounds.messages import Values
from desktop.rounds.policy import RoomPolicy
from desktop.tasks.builtin import DIGITS
from desktop.tasks.data import ArraySet, TaskData, load_sample
from tests.trainer.test_training import Room

SLOWER = 3
RARE = (7, 8, 9)  # digits that nobody but the slow member has, where data is skewed


def only(data: ArraySet, which: np.ndarray) -> ArraySet:
    return data.only(np.flatnonzero(which))


class SlowRoom(Room):
    """m2 takes three times as long for a local step; the others wait only twice as long as for each other."""

    def __init__(self, folder: Path, late: str, rounds: int, *, weighting: str, skewed: bool) -> None:
        self.skewed = skewed
        super().__init__(folder, 0)
        values = Values(rounds=rounds, local_steps=40, batch=16, lr=DIGITS.lr, late=late, weighting=weighting)
        self.policy = RoomPolicy(values, 3, 2, beat_s=0.05, first_deadline_s=1.0, least_deadline_s=0.5)
        self.shares = 3
        for number in range(3):
            self.add(f"m{number}", number + 1)

    def data(self, share: int) -> TaskData:
        data = load_sample(self.spec, (share, 3))
        if not self.skewed:
            return data
        rare = np.isin(data.train.labels, RARE)
        train = only(data.train, rare if share == 3 else ~rare)
        return TaskData(train=train, validation=data.validation, test=data.test, title=data.title, source=data.source)

    def play(self) -> tuple[float, float]:
        """Until all rounds are done: (loss, accuracy) on the test part that nobody trained on."""
        turn = 0
        m0 = self.trainings["m0"]
        while not m0.ended:
            turn += 1
            for name, training in self.trainings.items():
                if name != "m2" or not training.local.running or turn % SLOWER == 0:
                    training.slice()
            self.hub.pump()
            self.clock.now += 0.01
        steps = evaluate(m0.local.model, m0.spec, m0.local.data.test)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value.loss, end.value.accuracy

    def arrived(self) -> int:
        """How often late work of m2 came in with a later contribution."""
        return sum(isinstance(said, Noted) and "went into" in said.text for said in self.said["m2"])


def test_what_a_slow_member_learns_comes_in_when_it_is_carried_and_never_when_it_is_dropped(tmp_path: Path) -> None:
    losses = {}
    for late in ("drop", "carry"):
        (tmp_path / late).mkdir()
        room = SlowRoom(tmp_path / late, late, 4, weighting="equal", skewed=True)
        losses[late], _ = room.play()
        assert room.arrived() == {"drop": 0, "carry": 1}[late]
    assert losses["carry"] < losses["drop"]


def main() -> None:
    """Print the table."""
    print("| data | weigh by | late work | loss | accuracy | times it arrived | seconds of 24 rounds |")
    print("|---|---|---|---|---|---|---|")
    for skewed in (False, True):
        for weighting, late in (("samples", "drop"), ("samples", "carry"), ("equal", "carry")):
            with tempfile.TemporaryDirectory() as folder:
                room = SlowRoom(Path(folder), late, 24, weighting=weighting, skewed=skewed)
                loss, accuracy = room.play()
            data = "skewed" if skewed else "alike"
            print(f"| {data} | {weighting} | {late} | {loss:.3f} | {accuracy:.3f} | {room.arrived()} | "
                  f"{room.clock.now:.0f} |")


if __name__ == "__main__":
    main()
