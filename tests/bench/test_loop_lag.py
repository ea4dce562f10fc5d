"""The benchmark of the loop lag prints its one line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.windows import ROOT


@pytest.mark.bench
@pytest.mark.timeout(240)
def test_it_prints_one_line_in_time() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.bench.loop_lag", "--quick"], cwd=ROOT, capture_output=True,
                          text=True, timeout=180, check=True)
    line = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert list(line) == ["benchmark", "figures", "baseline", "ratio"]
    assert line["benchmark"] == "loop_lag"
    for figures in (line["figures"], line["baseline"], line["baseline"]["beside"], *line["figures"]["windows"]):
        assert 0 < figures["p50"] <= figures["p99"] <= figures["max"]
    assert len(line["figures"]["windows"]) == 3
    assert line["figures"]["rounds"] > 1
    assert line["ratio"] == pytest.approx(line["figures"]["p99"] / line["baseline"]["p99"], abs=0.01)
