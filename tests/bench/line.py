"""The one JSON line that a benchmark prints, and its options."""

from __future__ import annotations

import argparse
import json
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
