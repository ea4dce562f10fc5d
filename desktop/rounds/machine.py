"""A state machine as a declared table, and the diagram that is drawn from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Transitions `(state, input) -> state`. An input without an entry leaves the state as it is."""

    start: str
    transitions: Mapping[tuple[str, str], str]

    def diagram(self) -> str:
        """One line per transition, in the order of declaration; drawn into the docstrings of the users."""
        width = max(len(state) for state, _ in self.transitions)
        middle = max(len(word) for _, word in self.transitions)
        return "\n".join(
            f"{state:<{width}} --{word:-<{middle}}--> {target}" for (state, word), target in self.transitions.items()
        )


    def mermaid(self) -> str:
        """The same as a picture that GitHub and many editors draw; see `states.md`."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.start}"]
        lines += [f"    {state} --> {target}: {word}" for (state, word), target in self.transitions.items()]
        return "\n".join(lines)


def every(states: Iterable[str], word: str, target: str) -> dict[tuple[str, str], str]:
    """The same input with the same target in several states."""
    return {(state, word): target for state in states}


@dataclass
class Machine:
    """The current state of a `Table`, with the trace of how it came about (the last 50 transitions)."""

    table: Table
    state: str = ""
    trace: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = self.state or self.table.start

    def fire(self, word: str) -> bool:
        """Take a transition; False when this state has none for the input."""
        target = self.table.transitions.get((self.state, word))
        if target is None:
            return False
        self.trace = [*self.trace[-49:], (self.state, word, target)]
        self.state = target
        return True
