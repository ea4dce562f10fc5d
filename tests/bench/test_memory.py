"""The benchmark of the memory prints its one line."""

from __future__ import annotations

import sys

import pytest

from tests.bench.line import printed


@pytest.mark.bench
@pytest.mark.timeout(240)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's peak in /proc")
def test_it_prints_one_line_in_time() -> None:
    line = printed("memory", seconds=180)
    (found,) = line["figures"]["rooms"]
    assert found["rounds"] == 3
    assert len(found["windows"]) == found["members"] == 2
    # Weights, committed weights and Adam's two moments are there at once, whatever else is.
    assert min(found["windows"]) > 4
    assert line["baseline"]["10m"] > 4
    assert line["ratio"] == pytest.approx(found["most"] / line["baseline"]["10m"], abs=0.01)
