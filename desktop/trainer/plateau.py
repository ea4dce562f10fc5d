"""When a room has stopped learning: rounds without a better validation loss."""

from __future__ import annotations


class Plateau:
    """Watches the room's validation loss, round by round. `patience` rounds without a better one are a plateau."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._best = float("inf")
        self._since = 0  # the round of the best loss, or of the last plateau
        self._seen = 0

    def reached(self, round_: int, loss: float) -> bool:
        """The loss of a round, given once for each, in order; whether the patience is at its end.

        Then it begins anew: who goes on all the same gets as many rounds again.
        """
        if not self._patience or round_ <= self._seen:
            return False
        self._seen = round_
        if loss < self._best:
            self._best, self._since = loss, round_
        if round_ - self._since < self._patience:
            return False
        self._since = round_
        return True
