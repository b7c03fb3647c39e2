"""How long a call of the compiled step lasts, and how wide it is: decided by the clock, without effect on results."""

from __future__ import annotations

CALL_SECONDS = 0.5
"""A call should last about this long: short enough to feel alive, long enough to cost nothing."""


class Pace:
    """Learns the speed of the step at each width.

    Args:
        widths: the widths that a batch may have, falling.
    """

    def __init__(self, widths: tuple[int, ...]) -> None:
        self._widths = widths
        self._current = widths[0]
        self._seconds: dict[tuple[bool, int], float] = {}
        self._compile: dict[tuple[bool, int], float] = {}

    @property
    def compile_seconds(self) -> float:
        """What the first calls of their kinds took, nearly all of it compiling."""
        return sum(self._compile.values())

    def steps(self, key: tuple[bool, int], most: int) -> int:
        """Return how many steps the next call may take; the first call of a kind takes one, and pays for compiling."""
        if key not in self._compile:
            return 1
        if key not in self._seconds:
            return min(most, 8)
        return max(1, min(most, int(CALL_SECONDS / max(self._seconds[key], 1e-6))))

    def learn(self, key: tuple[bool, int], steps: int, seconds: float) -> None:
        """Remember how long a call took."""
        if key not in self._compile:
            self._compile[key] = seconds
        else:
            self._seconds[key] = seconds / steps

    def width(self, active: int, spent: int, left: int) -> int:
        """Return the width for so many active runs: narrower only if that saves more time than compiling takes.

        Runs may be solved any moment; the best guess is that they go on for as long as they have gone on so far.
        """
        candidates = [width for width in self._widths if width >= active]
        narrowest = min(candidates)
        if active > self._current:
            self._current = narrowest
        known = self._seconds.get((False, self._current))
        if narrowest < self._current and known is not None:
            saved = min(spent, left) * known * (1.0 - narrowest / self._current)
            compiled = (False, narrowest) in self._compile
            if compiled or saved > 2.0 * self._compile[(False, self._current)]:
                self._current = narrowest
        return self._current
