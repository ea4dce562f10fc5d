"""The benchmark of a round's time prints its one line."""

from __future__ import annotations

import statistics

import pytest

from tests.bench.line import printed
from tests.network import why_not


@pytest.mark.bench
@pytest.mark.timeout(240)
def test_it_prints_one_line_in_time() -> None:
    line = printed("round_time", seconds=200)
    ways = ["loopback"] if why_not() else ["network", "loopback"]
    assert [name for name, case in line["figures"].items() if isinstance(case, dict)] == ways
    for name in ways:
        case = line["figures"][name]
        assert len(case["exchange_s"]) == len(case["bytes_s"]) == 3
        assert case["shares"] == ["[3, 3, 3, 3]"] * 3
        assert line["baseline"][name] == statistics.median(case["bytes_s"])
        assert case["median_s"] <= statistics.median(case["until_applied_s"])
    if not why_not():  # 12 buckets, of which each sends 9 to others and its 3 results to three, of 1,022,474 float32
        assert min(line["figures"]["network"]["bytes_s"]) >= 1.5 * 4 * 1_022_474 / 2e6 * 0.95
    assert line["ratio"] == line["figures"][ways[0]]["ratio"]
