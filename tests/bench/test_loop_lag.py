"""The benchmark of the loop lag prints its one line."""

from __future__ import annotations

import pytest

from tests.bench.line import printed


@pytest.mark.bench
@pytest.mark.timeout(240)
def test_it_prints_one_line_in_time() -> None:
    line = printed("loop_lag", seconds=180)
    (small,) = line["figures"]["sizes"].values()
    for figures in (line["figures"], line["baseline"], small, small["beside"], *small["windows"]):
        assert 0 < figures["p50"] <= figures["p99"] <= figures["max"]
    assert len(small["windows"]) == 2
    assert small["rounds"] == 100
    assert 0 < small["exchanging"] < 1
    assert line["ratio"] == pytest.approx(line["figures"]["p99"] / line["baseline"]["p99"], abs=0.01)
