"""The benchmark of a link's speed prints its one line."""

from __future__ import annotations

import pytest

from tests.bench.line import printed


@pytest.mark.bench
@pytest.mark.timeout(120)
def test_it_prints_one_line_in_time() -> None:
    line = printed("link_goodput", seconds=100)
    for figures in (line["figures"], line["baseline"]):
        assert len(figures["each"]) == 3
        assert min(figures["each"]) <= figures["mb_per_s"] <= max(figures["each"])
        assert 0 < figures["lag_p99_ms"] <= figures["lag_max_ms"]
    assert line["ratio"] == pytest.approx(line["figures"]["mb_per_s"] / line["baseline"]["mb_per_s"], abs=0.01)
