"""Bytes that a member sends in a round, in multiples of the model's size, by members and wire precision.

`loopback`: the real training code with a model of 10 million parameters in one process; whole messages are counted as
they are handed to the transport, the small ones of the round and the beats included. `windows`: real processes; what
their links have sent until training ended is counted, so headers of packets, acknowledgements and pings too.

Each is the mean of the members, who take turns in who reduces how much; `most` is the member that sent most. What must
travel is 2(n-1)/n times the model's size times 1 (f32), 1/2 (f16) or 1/4 + 2/1024 (int8: a scale of 2 bytes for 256
numbers). `ratio` is the largest multiple of that, and at most 1.02 is aimed at.
"""

from __future__ import annotations

import itertools
import tempfile
from typing import Any

import torch

from desktop.bridge.lifecycle import Start
from desktop.bridge.loopback import LoopbackHub
from desktop.rounds.messages import Values
from desktop.rounds.policy import RoomPolicy
from desktop.tasks import models
from desktop.tasks.builtin import DIGITS
from desktop.tasks.data import load_sample
from desktop.trainer.training import Training
from tests.bench.line import is_quick, print_line
from tests.bench.rooms import ends, opened, room
from tests.bench.wide_models import wide

FACTORS = {"f32": 1.0, "f16": 1 / 2, "int8": 1 / 4 + 2 / 1024}
FULL = {"loopback": (2, 3, 4, 5, 6, 7, 8), "windows": (2, 4)}
QUICK = {"loopback": (2, 3), "windows": ()}
SIZE = "10m"
ROUNDS = 2
TICK_S = 0.001
LONGEST_S = 600.0


def needed(members: int, precision: str) -> float:
    """What a member must send in a round, in multiples of the model's size."""
    return 2 * (members - 1) / members * FACTORS[precision]


def loopback(members: int, precision: str, folder: str) -> list[float]:
    """Each member's multiple in one process."""
    hub, now = LoopbackHub(), [0.0]
    values = Values(rounds=ROUNDS, local_steps=1, precision=precision, batch=8, lr=DIGITS.lr)
    policy = RoomPolicy(values=values, start_members=members, min_members=members)
    trainings = []
    for number in range(members):
        order = Start(task=DIGITS.to_json(), policy=policy, backend="cpu", founder=not number, name=f"m{number}",
                      models_folder=folder)
        trainings.append(Training(order, load_sample(DIGITS, (number + 1, members)), hub.join(f"m{number}"),
                                  lambda said: None, lambda: now[0]))
        trainings[-1].begin()
    while any(training.engine.room.round < ROUNDS for training in trainings):
        for training in trainings:
            training.slice()
        hub.pump()
        now[0] += TICK_S
    size = 4 * trainings[0].local.parameters
    for training in trainings:
        training.free()
    return [sent / size / ROUNDS for sent in hub.bytes_sent.values()]


def windows(members: int, precision: str) -> list[float]:
    """Each member's multiple in real processes."""
    with opened(SIZE) as all_:
        lines = ends(room(all_, members, ROUNDS, "--precision", precision), LONGEST_S)
    return [line["members"][0]["sent_bytes"] / (4 * line["parameters"]) / line["round"] for line in lines]


def row(kind: str, members: int, precision: str, sent: list[float]) -> dict[str, Any]:
    """Figures of one room."""
    mean, must = sum(sent) / members, needed(members, precision)
    return {"kind": kind, "members": members, "precision": precision, "mean": round(mean, 4),
            "most": round(max(sent), 4), "needed": round(must, 4), "ratio": round(mean / must, 4)}


def main() -> None:
    """Prints the line."""
    plan = QUICK if is_quick(__doc__ or "") else FULL
    torch.set_num_threads(1)
    models.warm_up()
    models.MODELS["digits-cnn"] = lambda spec: wide(spec, SIZE)
    with tempfile.TemporaryDirectory() as folder:
        rows = [row("loopback", *each, loopback(*each, folder))
                for each in itertools.product(plan["loopback"], FACTORS)]
    rows += [row("windows", *each, windows(*each)) for each in itertools.product(plan["windows"], FACTORS)]
    figures = {"unit": "times the model's size, sent by a member in a round", "size": SIZE, "rounds": ROUNDS,
               "rooms": rows}
    baseline = {"what": "2(n-1)/n times the precision's factor", **FACTORS}
    print_line("round_bytes", figures, baseline, max(each["ratio"] for each in rows))


if __name__ == "__main__":
    main()
