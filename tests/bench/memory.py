"""How much memory a window takes to train with Adam and to exchange, in multiples of the model's size.

The peak resident size of each window of a room until its model is saved, minus what a window holds that has read its
data and opened its room and was not started. `fixed_mb` is the same for the program's own small model: what training
takes whatever the model's size, such as the libraries' own buffers. The baseline is a bare process that trains the same
model with the same optimiser and exchanges nothing: weights, gradients, and Adam's two moments are 4.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.bench.line import is_quick, print_line
from tests.bench.rooms import ends, idle, load, opened, room

PLAIN = ("f32", "none")  # wire precision, outer optimiser
HOWS = (PLAIN, ("f16", "none"), ("int8", "none"), ("f32", "nesterov"), ("int8", "nesterov"))
QUICK = [("10m", 2, PLAIN)]
FULL = [*(("10m", 4, how) for how in HOWS), ("10m", 2, PLAIN), ("10m", 3, PLAIN), ("10m", 8, PLAIN),
        ("124m", 2, PLAIN)]
ROUNDS = 3
SMALL = "0.1m"
LONGEST_S = 900.0
MB = 1_000_000
BARE_STEPS = 5


def resident(pid: int | str, key: str) -> int:
    """Bytes: "VmRSS" now, "VmHWM" the most ever."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def before_start(size: str) -> int:
    """Bytes of a window that has all it needs to start."""
    with opened(size) as windows:
        window = idle(windows, "ready", "--host", "--task", "digits", "--data", "sample", "--loopback")
        return resident(window.pid, "VmRSS")


def grown(size: str, members: int, how: tuple[str, str] = PLAIN) -> tuple[list[int], int, int]:
    """Bytes by which each window of a room grew at most; rounds and parameters."""
    before = before_start(size)
    with opened(size) as windows:
        all_ = room(windows, members, ROUNDS, "--precision", how[0], "--outer", how[1])
        lines = ends(all_, LONGEST_S)
        return [resident(window.pid, "VmHWM") - before for window in all_], lines[0]["round"], lines[0]["parameters"]


def bare(size: str) -> float:
    """Multiple of the model's size by which a process grows that only trains."""
    script = f"from tests.bench.memory import train; train({size!r})"
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE,
                          text=True, timeout=LONGEST_S, check=True)
    return float(json.loads(done.stdout))


def train(size: str) -> None:
    """Train in this process; print the multiple."""
    import torch

    from desktop.tasks import models
    from desktop.tasks.builtin import DIGITS
    from tests.bench.wide_models import wide

    torch.set_num_threads(1)
    models.warm_up()
    before = resident("self", "VmHWM")
    model = wide(DIGITS, size)
    optimiser = models.build_optimiser(DIGITS, model.parameters())
    x, y = torch.rand(8, 1, 8, 8), torch.zeros(8, dtype=torch.int64)
    for _ in range(BARE_STEPS):
        optimiser.zero_grad()
        loss, _ = models.loss_and_correct(DIGITS, model(x), y)
        loss.backward()
        optimiser.step()
    print((resident("self", "VmHWM") - before) / (4 * models.parameter_count(model)))


def measure(size: str, members: int, how: tuple[str, str]) -> dict[str, Any]:
    """Figures of one room."""
    peaks, rounds, parameters = grown(size, members, how)
    times = [round(peak / (4 * parameters), 2) for peak in peaks]
    return {"size": size, "members": members, "precision": how[0], "outer": how[1], "parameters": parameters,
            "rounds": rounds, "most": max(times), "windows": times, "mb": [round(peak / MB) for peak in peaks],
            "load": load()}


def main() -> None:
    """Prints the line."""
    plan = QUICK if is_quick(__doc__ or "") else FULL
    plain = {size: round(bare(size), 2) for size in sorted({size for size, _, _ in plan})}
    small, _, _ = grown(SMALL, 2)
    rooms = [measure(*each) for each in plan]
    figures = {"unit": "times the model's size", "most": max(each["most"] for each in rooms),
               "fixed_mb": round(max(small) / MB), "rooms": rooms}
    baseline = {"what": "a bare process that trains the same model and exchanges nothing", **plain}
    worst = max(rooms, key=lambda each: float(each["most"]))
    print_line("memory", figures, baseline, round(worst["most"] / plain[worst["size"]], 2))


if __name__ == "__main__":
    main()
