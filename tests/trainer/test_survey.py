"""Rounds that agree on means and spreads of a table's numbers, and what is trained after them."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from desktop.bridge.lifecycle import FinalModel, RoundCommitted
from desktop.tasks import reading
from desktop.tasks.builtin import PENGUINS, TITANIC
from desktop.tasks.data import TaskData
from desktop.tasks.spec import Column, Table, TaskSpec
from desktop.tasks.table_models import Restore, Standardise
from desktop.trainer.training import Training
from tests.tasks.folders import finish
from tests.trainer.test_training import Room

AMOUNT = TITANIC.changed(id="amount", label="price", goal="number", classes=(), columns=(
    Column(name="size", role="number"), Column(name="year", role="number"),
    Column(name="place", role="category", values=("near", "far"))))


class TableRoom(Room):
    """A room whose members each hold a table."""

    def __init__(self, folder: Path, spec: TaskSpec, tables: list[TaskData], **policy: object) -> None:
        self.tables = tables
        super().__init__(folder, len(tables), spec, **policy)

    def data(self, share: int) -> TaskData:
        return self.tables[share - 1]


def penguins(part: int, parts: int) -> TaskData:
    found = finish(reading.read_sample(PENGUINS, (part, parts))).data
    assert found is not None
    return found


def read(spec: TaskSpec, path: Path, header: list[str], rows: list[list[object]]) -> TaskData:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    found = finish(reading.read(spec, (path,), ()))
    assert found.data is not None, found.view.error
    return found.data


def passengers(path: Path, rows: int, seed: int) -> TaskData:
    """Passengers as the well-known table has them, invented: women of the first class live, a fifth has no age."""
    draw = random.Random(seed)
    made: list[list[object]] = []
    for _ in range(rows):
        tier = draw.choice((1, 2, 3))
        age = "" if draw.random() < 0.2 else round(draw.uniform(1, 70), 1)
        made.append([int(draw.random() < 0.9 - 0.25 * tier), tier, age, draw.randrange(4), draw.randrange(3),
                     round(draw.gauss(90 / tier, 5), 4)])
    return read(TITANIC, path, ["Survived", "Pclass", "Age", "SibSp", "Parch", "Fare"], made)


def sales(path: Path, rows: int, seed: int, level: float) -> TaskData:
    """Prices that follow from size and place, each member's at another level."""
    draw = random.Random(seed)
    made: list[list[object]] = []
    for _ in range(rows):
        size, place = draw.gauss(level, 20), draw.choice(("near", "far"))
        made.append([round(size, 2), 1990 + draw.randrange(30), place,
                     round(3000 * size + 20_000 * (place == "near") + draw.gauss(0, 500), 2)])
    return read(AMOUNT, path, ["size", "year", "place", "price"], made)


def agreed(training: Training, kind: type[Standardise | Restore]) -> tuple[np.ndarray, np.ndarray]:
    layer = next(each for each in training.local.model.modules() if isinstance(each, kind))
    return layer.center().numpy(), layer.spread().numpy()


def numbers(tables: list[TaskData], form: Table) -> np.ndarray:
    """The numbers of all members' training rows, NaN where they are missing."""
    x = np.concatenate([table.train.batch(slice(None))[0] for table in tables]).astype(np.float64)
    at = np.array([place for place, column in zip(form.places, form.columns, strict=True) if column.role == "number"])
    return np.where(x[:, at + 1] > 0, np.nan, x[:, at])


@pytest.mark.parametrize("policy", [{}, {"precision": "int8"}, {"weighting": "equal"}, {"local_steps": 1, "batch": 1}],
                         ids=["as is", "int8", "equal", "one sample"])
def test_the_room_agrees_on_the_statistics_of_all_rows_together(tmp_path: Path, policy: dict[str, object]) -> None:
    """StandardScaler leaves out what is missing, as we do. Whatever the values say of how members weigh."""
    tables = [passengers(tmp_path / "a.csv", 30, 1), passengers(tmp_path / "b.csv", 700, 2),
              passengers(tmp_path / "c.csv", 100, 3)]
    room = TableRoom(tmp_path, TITANIC, tables, rounds=3, **policy)
    room.run(room.all_ended)
    assert isinstance(TITANIC.form, Table)
    expected = StandardScaler().fit(numbers(tables, TITANIC.form))
    for training in room.trainings.values():
        center, spread = agreed(training, Standardise)
        np.testing.assert_allclose(center, expected.mean_, rtol=1e-5)
        np.testing.assert_allclose(spread, expected.scale_, rtol=1e-5)
    assert len(room.digests()) == 1


def test_two_members_with_half_the_penguins_each_tell_them_apart(tmp_path: Path) -> None:
    tables = [penguins(1, 2), penguins(2, 2)]
    room = TableRoom(tmp_path, PENGUINS, tables, rounds=PENGUINS.rounds, local_steps=PENGUINS.local_steps)
    room.run(room.all_ended)
    final = room.last("m0", FinalModel)
    assert isinstance(final, FinalModel)
    assert final.test_samples == 52  # 15 % of 344 rows, of which none is in anybody's training
    assert final.test_accuracy is not None
    assert final.test_accuracy >= 0.95
    first = next(said for said in room.said["m0"] if isinstance(said, RoundCommitted))
    assert first.round == 3  # rounds that only survey are not validated


def test_the_titanic_trains_with_two_members(tmp_path: Path) -> None:
    tables = [passengers(tmp_path / "a.csv", 300, 1), passengers(tmp_path / "b.csv", 300, 2)]
    room = TableRoom(tmp_path, TITANIC, tables, rounds=4, local_epochs=2.0)
    room.run(room.all_ended)
    assert len(room.digests()) == 1
    last = room.last("m1", RoundCommitted)
    assert isinstance(last, RoundCommitted)
    assert last.room_loss is not None
    assert last.room_loss < np.log(2)


def test_a_number_is_predicted_in_its_own_unit(tmp_path: Path) -> None:
    """Members' tables lie at different levels; the label's mean and spread are those of all, too."""
    tables = [sales(tmp_path / "a.csv", 200, 1, 60.0), sales(tmp_path / "b.csv", 400, 2, 140.0)]
    room = TableRoom(tmp_path, AMOUNT, tables, rounds=12, local_steps=40, lr=0.005)
    room.run(room.all_ended)
    prices = np.concatenate([table.train.batch(slice(None))[1] for table in tables]).astype(np.float64)
    center, spread = agreed(room.trainings["m0"], Restore)
    np.testing.assert_allclose((center[0], spread[0]), (prices.mean(), prices.std()), rtol=1e-5)
    last = room.last("m0", RoundCommitted)
    assert isinstance(last, RoundCommitted)
    assert last.room_loss is not None
    assert last.room_loss < 0.05 * prices.var()  # it explains 95 % of the variance


def test_who_comes_after_the_survey_gets_its_figures_with_the_weights(tmp_path: Path) -> None:
    tables = [penguins(part, 3) for part in (1, 2, 3)]
    room = TableRoom(tmp_path, PENGUINS, tables[:2], rounds=6)
    room.tables = tables
    room.run(lambda: room.trainings["m0"].engine.room.round >= 3)
    room.add("m2", 3)
    room.run(room.all_ended)
    assert len(room.digests()) == 1
    np.testing.assert_array_equal(agreed(room.trainings["m2"], Standardise), agreed(room.trainings["m0"], Standardise))
