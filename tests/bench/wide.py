"""The program with a larger model: `python -m tests.bench.wide 10m|124m [options of the program]`.

Everything else is the program as it is: only the model of the task "digits" has as many weights as is asked for.
"""

from __future__ import annotations

import sys

from desktop.__main__ import main
from desktop.bridge.lifecycle import WarmUp
from desktop.trainer.worker import TrainerWorker

warm_up = TrainerWorker._warm_up


def widen(size: str) -> None:
    """From the moment that torch is imported, the digits' model is the wide one."""

    def warm_up_widened(self: TrainerWorker, command: WarmUp) -> None:
        warm_up(self, command)
        from desktop.tasks import models
        from tests.bench.wide_models import wide

        models.MODELS["digits-cnn"] = lambda spec: wide(spec, size)

    TrainerWorker._warm_up = warm_up_widened  # type: ignore[method-assign]


if __name__ == "__main__":
    widen(sys.argv.pop(1))
    sys.exit(main())
