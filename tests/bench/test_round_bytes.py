"""The benchmark of bytes per round prints its one line, and an exchange sends no more than it must."""

from __future__ import annotations

import pytest

from tests.bench.line import printed

# By hand, from 2(n-1)/n times 1, 1/2 or 1/4 + 2/1024.
NEEDED = {(2, "f32"): 1, (2, "f16"): 0.5, (2, "int8"): 0.25195, (3, "f32"): 1.33333, (3, "f16"): 0.66667,
          (3, "int8"): 0.33594}


@pytest.mark.bench
@pytest.mark.timeout(180)
def test_a_member_sends_hardly_more_than_it_must() -> None:
    line = printed("round_bytes", seconds=120)
    means = {(row["members"], row["precision"]): row["mean"] for row in line["figures"]["rooms"]}
    assert means == pytest.approx(NEEDED, rel=0.02)
    assert line["ratio"] <= 1.02
