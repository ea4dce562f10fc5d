"""The benchmark of a link's speed prints its one line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.windows import ROOT


@pytest.mark.bench
@pytest.mark.timeout(120)
def test_it_prints_one_line_in_time() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.bench.link_goodput", "--quick"], cwd=ROOT, capture_output=True,
                          text=True, timeout=100, check=True)
    line = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert list(line) == ["benchmark", "figures", "baseline", "ratio"]
    assert line["benchmark"] == "link_goodput"
    for figures in (line["figures"], line["baseline"]):
        assert len(figures["each"]) == 3
        assert min(figures["each"]) <= figures["mb_per_s"] <= max(figures["each"])
        assert 0 < figures["lag_p99_ms"] <= figures["lag_max_ms"]
    assert line["ratio"] == pytest.approx(line["figures"]["mb_per_s"] / line["baseline"]["mb_per_s"], abs=0.01)
