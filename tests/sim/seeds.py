"""Many seeds in one go: `python -m tests.sim.seeds FROM TO [--jobs N]` prints each that fails, and figures at the end.

Every other seed is a room in which things go wrong (`faults.trouble`), the others have members that do not keep to the
rules (`faults.rogues`, `faults.hostile`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from multiprocessing import get_context

from tests.sim.faults import Case, hostile, must_hold, rogues, trouble
from tests.sim.simulator import InvariantBroken

EVERY = 500  # seeds between two lines of progress


def case_of(seed: int) -> Case:
    """What this seed plays."""
    return (trouble, hostile, trouble, rogues)[seed % 4](seed)


def outcome(seed: int) -> tuple[int, str, Counter[str]]:
    """The seed, why it failed ("" if it did not), and what it adds to the figures."""
    case = case_of(seed)
    try:
        sim = must_hold(case)
    except InvariantBroken as broken:
        return seed, str(broken), Counter(failed=1)
    except Exception:  # the engine never raises: this is a finding like any other
        return seed, traceback.format_exc(), Counter(failed=1)
    return seed, "", Counter(
        virtual_s=int(sim.now), events=sim.events, messages=sum(sim.messages.values()),
        lost_weights=int(sim.lost_weights()), with_rogues=int(bool(case.rogues)),
    )


def main() -> int:
    """Plays them; 1 when one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int, help="the first that is not played any more")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    begun, total = time.monotonic(), Counter[str]()
    with get_context("spawn").Pool(options.jobs) as pool:
        outcomes = pool.imap_unordered(outcome, range(options.first, options.end), chunksize=4)
        for number, (seed, why, figures) in enumerate(outcomes, 1):
            total += figures
            if why:
                print(f"SEED {seed}: {why}", flush=True)
            if number % EVERY == 0:
                print(f"{number} seeds, {total['failed']} failed, {time.monotonic() - begun:.0f} s", flush=True)
    print(json.dumps({
        "seeds": options.end - options.first, "failed": total["failed"], "with_rogues": total["with_rogues"],
        "lost_weights": total["lost_weights"], "events": total["events"], "messages": total["messages"],
        "virtual_hours": round(total["virtual_s"] / 3600, 1), "wall_s": round(time.monotonic() - begun),
    }))
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
