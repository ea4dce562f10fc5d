"""The benchmark of pictures in folders prints its one line."""

from __future__ import annotations

import sys

import pytest

from tests.bench.line import printed


@pytest.mark.bench
@pytest.mark.timeout(240)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's size in /proc")
def test_it_prints_one_line_in_time() -> None:
    line = printed("pictures", seconds=180)
    assert line["figures"]["pictures"] == 2_000
    assert line["figures"]["words_after_cancel"] == 0
    sizes = line["figures"]["half_mb_after_epochs"]
    assert max(sizes) - sizes[0] < 20  # three epochs of twice what the bound allows
    rates = [line[part]["samples_per_s"] for part in ("figures", "baseline")]
    assert line["ratio"] == pytest.approx(rates[0] / rates[1], rel=0.01)
