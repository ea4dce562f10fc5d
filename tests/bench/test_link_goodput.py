"""The benchmark of a link's speed prints its one line."""

from __future__ import annotations

import pytest

from tests.bench.line import printed


@pytest.mark.bench
@pytest.mark.timeout(120)
def test_it_prints_one_line_in_time() -> None:
    line = printed("link_goodput", seconds=100)
    for case in ("loopback", "direct lane"):
        for figures in (line["figures"][case], line["baseline"][case]):
            assert len(figures["each"]) == 2
            assert min(figures["each"]) <= figures["mb_per_s"] <= max(figures["each"])
            assert 0 < figures["lag_p99_ms"] <= figures["lag_max_ms"]
        ours, plain = line["figures"][case], line["baseline"][case]
        assert ours["ratio"] == pytest.approx(ours["mb_per_s"] / plain["mb_per_s"], rel=0.02)
    assert line["ratio"] == line["figures"]["loopback"]["ratio"]
    assert line["figures"]["direct lane"]["lanes"] == {"webrtc": 1, "tls": 1}
