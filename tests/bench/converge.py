"""Rounds and bytes to 95 % on the sample digits, by local steps, wire precision, outer optimiser and skew of the data.

Four members in one process, the real training code over the loopback transport, no windows. After each round the
committed weights are tested on the held-out digits, which are the same for all. With skewed data each class is dealt
out among the members by shares drawn from a Dirichlet distribution of 0.3. Where several seeds are run, rounds are
their mean. `factor` compares the rounds of f16 and int8 with those of f32, same everything else: for each setting, and
above them the mean of all; `ratio` is the larger of the two means, and at most 1.1 is aimed at. `of_factors` are the
least and the largest of single seeds, which say how much of a factor is chance. The baseline is one process that trains
on all of the data with batches as large as the members' together.

`--picture FILE.png` draws the curves and the table.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from desktop.bridge.lifecycle import Start
from desktop.bridge.loopback import LoopbackHub
from desktop.rounds.messages import Outer, Values
from desktop.rounds.policy import RoomPolicy
from desktop.tasks import models
from desktop.tasks.builtin import DIGITS
from desktop.tasks.data import Batches, TaskData, load_sample
from desktop.trainer.loop import flatten
from desktop.trainer.training import Training
from tests.bench.line import print_line

MEMBERS = 4
AIM = 0.95
SKEW = 0.3
MOST_ROUNDS = {1: 1000, 5: 300, 20: 100, 100: 40}
BUCKET_BYTES = 40_000  # four buckets, so that each member reduces one
PRECISIONS = ("f32", "f16", "int8")
# Local steps with their seeds: with few, an accuracy that rises slowly and jumps up and down reaches the aim by chance.
FULL = {"steps": {1: range(1, 9), 5: range(1, 6), 20: range(1, 4), 100: range(1, 4)}, "skewed": (False, True)}
QUICK = {"steps": {20: range(1, 2), 100: range(1, 2)}, "skewed": (False,)}
OUTER = ("none", "nesterov")


@dataclass(frozen=True)
class Setting:
    """One room to try."""

    steps: int
    skewed: bool
    outer: str
    precision: str
    seed: int = 0


@dataclass
class Outcome:
    """What came of a setting. `rounds` is None when the aim was not reached."""

    setting: Setting
    rounds: int | None
    bytes: int  # sent by one member until then, mean
    curve: list[float]  # accuracy after each round


def skewed_parts(members: int, seed: int) -> list[TaskData]:
    """The digits dealt out so that each member has much of some classes and little of others."""
    whole = load_sample(DIGITS)
    labels, rng = whole.train.labels, np.random.default_rng(seed)
    while True:
        owner = np.empty(len(labels), np.int64)
        for label in range(10):
            mine = np.flatnonzero(labels == label)
            owner[mine] = rng.choice(members, size=len(mine), p=rng.dirichlet([SKEW] * members))
        parts = [np.flatnonzero(owner == member) for member in range(members)]
        if min(map(len, parts)) >= DIGITS.batch:
            return [TaskData(train=whole.train.only(part), validation=whole.validation, test=whole.test, title="",
                             source="sample") for part in parts]


def data(setting: Setting) -> list[TaskData]:
    """One member's data after the other."""
    if setting.skewed:
        return skewed_parts(MEMBERS, setting.seed)
    return [load_sample(DIGITS, (member + 1, MEMBERS)) for member in range(MEMBERS)]


class Test:
    """How weights do on the held-out digits."""

    def __init__(self) -> None:
        self.model = models.build_model(DIGITS, 0)
        self.flat = flatten(self.model)
        test = load_sample(DIGITS).test
        self.x, self.y = models.tensors(test, slice(0, len(test)))

    @torch.no_grad()
    def accuracy(self, weights: torch.Tensor) -> float:
        """Share of pictures that are read right."""
        self.flat.copy_(weights)
        return (self.model(self.x).argmax(dim=1) == self.y).float().mean().item()


def run(setting: Setting, test: Test, folder: str) -> Outcome:
    """Train a room until the aim is reached."""
    hub, now = LoopbackHub(), [0.0]
    most = MOST_ROUNDS[setting.steps]
    values = Values(rounds=most, local_steps=setting.steps, precision=setting.precision, batch=DIGITS.batch,
                    lr=DIGITS.lr, outer=Outer(setting.outer))
    policy = RoomPolicy(values=values, start_members=MEMBERS, min_members=MEMBERS)
    task = DIGITS.changed(seed=42 + setting.seed)
    trainings = []
    for number, each in enumerate(data(setting)):
        order = Start(task=task.to_json(), policy=policy, backend="cpu", founder=not number, name=f"m{number}",
                      models_folder=folder)
        trainings.append(Training(order, each, hub.join(f"m{number}"), lambda said: None, lambda: now[0], BUCKET_BYTES))
        trainings[-1].begin()
    curve: list[float] = []
    first = trainings[0]
    while len(curve) < most and (not curve or curve[-1] < AIM):
        for training in trainings:
            training.slice()
        hub.pump()
        now[0] += 0.001
        if first.engine.room.round > len(curve) and min(first.numbers.versions) > len(curve):
            curve.append(test.accuracy(first.numbers.committed))
    sent = sum(hub.bytes_sent.values()) // MEMBERS
    return Outcome(setting, len(curve) if curve[-1] >= AIM else None, sent, curve)


def one_process(test: Test) -> int:
    """Steps to the aim of one process with all the data."""
    whole = load_sample(DIGITS).train
    model = models.build_model(DIGITS, DIGITS.seed)
    flat = flatten(model)
    optimiser = models.build_optimiser(DIGITS, model.parameters())
    batches = Batches(len(whole), MEMBERS * DIGITS.batch, 1)
    for step in itertools.count(1):
        x, y = models.tensors(whole, next(batches))
        optimiser.zero_grad()
        models.loss_and_correct(DIGITS, model(x), y)[0].backward()
        optimiser.step()
        if test.accuracy(flat) >= AIM:
            return step
    raise AssertionError


def table(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """One row for each setting, seeds taken together."""
    rows = []
    groups: dict[Setting, list[Outcome]] = {}
    for each in outcomes:
        groups.setdefault(replace(each.setting, seed=0), []).append(each)
    for setting, runs in groups.items():
        rounds = [each.rounds for each in runs if each.rounds is not None]
        whole = len(rounds) == len(runs)
        row = {key: value for key, value in asdict(setting).items() if key != "seed"}
        row |= {"rounds": round(statistics.mean(rounds), 1) if whole else None, "of_seeds": [r.rounds for r in runs],
                "kb": round(statistics.mean(each.bytes for each in runs) / 1000), "factor": None, "of_factors": None}
        rows.append(row)
    exact = {(r["steps"], r["skewed"], r["outer"]): r for r in rows if r["precision"] == "f32"}
    for row in rows:
        base = exact[row["steps"], row["skewed"], row["outer"]]
        if base["rounds"] and row["rounds"] and row["precision"] != "f32":
            row["factor"] = round(row["rounds"] / base["rounds"], 2)
            factors = [a / b for a, b in zip(row["of_seeds"], base["of_seeds"], strict=True)]
            row["of_factors"] = [round(min(factors), 2), round(max(factors), 2)]
    return rows


def main() -> None:
    """Prints the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="stay under a minute")
    parser.add_argument("--picture", metavar="FILE", type=Path, help="draw curves and table into a PNG")
    options = parser.parse_args()
    torch.set_num_threads(1)
    models.warm_up()
    plan, test = QUICK if options.quick else FULL, Test()
    settings = [Setting(steps, *each) for steps, seeds in plan["steps"].items()
                for each in itertools.product(plan["skewed"], OUTER, PRECISIONS, seeds)]
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [run(setting, test, folder) for setting in settings]
    rows = table(outcomes)
    if options.picture:
        from tests.bench.converge_picture import draw

        draw(rows, outcomes, options.picture)
    factors = {precision: [row["factor"] for row in rows if row["precision"] == precision and row["factor"]]
               for precision in PRECISIONS[1:]}
    means = {precision: round(statistics.mean(each), 3) for precision, each in factors.items() if each}
    figures = {"unit": f"rounds to {AIM:.0%}, and kB that a member sent until then", "members": MEMBERS,
               "factor": means, "settings": rows}
    baseline = {"what": f"steps of one process with all data and batches of {MEMBERS * DIGITS.batch}",
                "steps": one_process(test)}
    print_line("converge", figures, baseline, max(means.values(), default=None))


if __name__ == "__main__":
    main()
