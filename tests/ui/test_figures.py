"""Figures in words, and where the pages show them."""

from __future__ import annotations

import pytest

from desktop.state import WindowState
from desktop.ui import figures
from desktop.ui.formats import figure
from desktop.ui.main_window import MainWindow
from desktop.ui.train_page import TrainPage
from tests.ui import sample_states


@pytest.mark.parametrize(("accuracy", "metrics", "words"), [
    (0.972, {"f1": 0.9714, "auc": 0.99}, "97.2 % right on 360 test samples, F1 0.971, AUC 0.990"),
    (0.5, {}, "50.0 % right on 360 test samples"),
    (None, {"mae": 6911.4, "r2": -0.5}, "6,911 mean error on 360 test samples, R² -0.500"),
    (0.4, {"perplexity": 12.62}, "12.62 perplexity on 360 test samples"),
])
def test_each_task_has_its_own_figure(accuracy: float | None, metrics: dict[str, float], words: str) -> None:
    assert f"{figures.score(accuracy, metrics)} {figures.meaning(metrics, 360)}" == words


def test_without_a_test_there_is_a_dash() -> None:
    assert figures.score(None, {}) == "–"
    assert figures.meaning({}) == "right on test samples"


@pytest.mark.parametrize(("value", "text"), [
    (0.2314, "0.231"), (0.0, "0.000"), (0.00042, "0.000420"), (12.3, "12.30"), (-12345.6, "-12,346"),
    (float("nan"), "–"), (None, "–"), (1e-300, "0.000000000"),
])
def test_numbers_of_any_size(value: float | None, text: str) -> None:
    assert figure(value) == text


def shown(window: MainWindow, state: WindowState) -> TrainPage:
    window.render(state)
    page = window.findChild(TrainPage)
    assert page is not None
    return page


def test_a_number_has_errors_and_no_accuracy(window: MainWindow) -> None:
    page = shown(window, sample_states.training_number())
    assert (page.error.isVisible(), page.accuracy.isVisible()) == (True, False)
    assert page.error.note.text() == "R² 0.874"
    assert page.error.values[2].text() == "room validation 7,329"
    page = shown(window, sample_states.training())
    assert (page.error.isVisible(), page.accuracy.isVisible()) == (False, True)
    assert page.accuracy.note.text() == "F1 0.942"
    assert not page.loss.note.isVisible()


def test_text_has_a_perplexity(window: MainWindow) -> None:
    page = shown(window, sample_states.training_text())
    assert page.loss.note.isVisible()
    assert page.loss.note.text() == "perplexity 12.62"
    assert page.accuracy.isVisible()  # of the next token
    assert not page.accuracy.note.isVisible()


def test_a_legend_without_room_goes_without_further_figures(window: MainWindow) -> None:
    page = shown(window, sample_states.training_number())
    window.resize(1024, 640)
    assert not page.error.note.isVisible()
    window.resize(1280, 720)
    assert page.error.note.isVisible()


def test_the_end_says_how_the_test_went(window: MainWindow) -> None:
    page = shown(window, sample_states.trained_number())
    assert page.status.note.text() == "6,911 mean error on 360 test samples, R² 0.881 · nobody trained on these"
