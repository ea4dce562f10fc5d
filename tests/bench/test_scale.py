"""The benchmark of large rooms prints its one line."""

from __future__ import annotations

import pytest

from tests.bench.line import printed
from tests.bench.scale import measure


@pytest.mark.bench
@pytest.mark.timeout(120)
def test_it_prints_one_line_in_time() -> None:
    line = printed("scale", seconds=100)
    for room in line["figures"]["rooms"]:
        n = room["members"]
        assert room["mb"] == pytest.approx(2 * 40 * (n - 1) / n, rel=0.01)
        assert room["messages"] - room["payloads"] <= 4 * n
    assert line["ratio"] < 1.01


def test_a_room_of_eight_costs_what_an_exchange_costs_and_learns() -> None:
    room = measure(8)
    assert room["payloads"] == 2 * 16 * 7 / 8  # to each reducer its buckets, and what it made of them to all
    assert room["mb"] == pytest.approx(70.0, rel=0.001)
    assert room["messages"] - room["payloads"] < 4 * 8
    assert 0 < room["rounds_to_loss"] < 20
