"""The benchmark of convergence runs, and says what it should."""

from __future__ import annotations

import pytest

from tests.bench.line import printed

pytestmark = [pytest.mark.bench, pytest.mark.timeout(180)]


def test_every_precision_reaches_the_aim_in_about_the_rounds_of_f32() -> None:
    line = printed("converge", seconds=120)
    figures = line["figures"]
    assert {row["precision"] for row in figures["settings"]} == {"f32", "f16", "int8"}
    assert all(row["rounds"] for row in figures["settings"])
    assert line["ratio"] == max(figures["factor"].values()) <= 1.1
    sent = {row["precision"]: row["kb"] / row["rounds"] for row in figures["settings"] if row["steps"] == 20}
    assert sent["f16"] / sent["f32"] == pytest.approx(1 / 2, abs=0.02)
    assert sent["int8"] / sent["f32"] == pytest.approx(1 / 4 + 2 / 1024, abs=0.02)
