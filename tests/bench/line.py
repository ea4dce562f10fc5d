"""The one JSON line that a benchmark prints, its options, and what every benchmark's test checks of it."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

KEYS = ("benchmark", "figures", "baseline", "ratio")


def is_quick(sentence: str) -> bool:
    """Reads the command line: whether --quick was given, with which a benchmark stays under a minute."""
    parser = argparse.ArgumentParser(description=sentence)
    parser.add_argument("--quick", action="store_true", help="stay under a minute")
    return bool(parser.parse_args().quick)


def print_line(benchmark: str, figures: dict[str, Any], baseline: dict[str, Any], ratio: float | None) -> None:
    """`baseline` was taken in the same run: absolute times on a shared computer mean nothing."""
    print(json.dumps(dict(zip(KEYS, (benchmark, figures, baseline, ratio), strict=True))))


def printed(benchmark: str, *, seconds: float) -> Any:
    """Runs a benchmark with --quick; its line, after a check that it is the only one and has its four keys."""
    done = subprocess.run([sys.executable, "-m", f"tests.bench.{benchmark}", "--quick"], capture_output=True,
                          cwd=Path(__file__).parents[2], text=True, timeout=seconds, check=True)
    line = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert list(line) == ["benchmark", "figures", "baseline", "ratio"]
    assert line["benchmark"] == benchmark
    return line
