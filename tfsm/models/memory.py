"""What a network that runs step by step remembers from one step to the next."""

from __future__ import annotations

from collections.abc import Sequence

from tfsm.contracts import Tensor

State = tuple[Tensor, ...]


class Memory:
    """Told by recurrent layers, in the order in which they run, what state they are in.

    Args:
        states: what they were told to remember at the step before; None at the first.
        tables: what layers that see one time alone made of a table's entries, by the layer's id; filled as they run.
    """

    def __init__(self, states: Sequence[State] | None = None, tables: dict[int, Tensor] | None = None) -> None:
        self._states = states
        self.kept: list[State] = []
        self.tables: dict[int, Tensor] = {} if tables is None else tables

    def recall(self, start: State) -> State:
        """Return the state of the layer that runs now; `start` at the first step."""
        return start if self._states is None else self._states[len(self.kept)]

    def keep(self, state: State) -> None:
        """Remember the state that the layer which runs now has got into."""
        self.kept.append(state)
