"""The one place that decides how a run is compiled, and how many runs share a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tfsm.contracts import Domain
from tfsm.models.network import Network

Compile = Literal["auto", "xla", "graph"]

_GIB = 2**30


@dataclass(frozen=True)
class Plan:
    """How to run: with XLA or as a plain graph, how many runs at once, and why."""

    jit: bool
    width: int
    least_width: int
    why: str
    reuse: bool = False
    """Whether there is room to keep sensitivities for a parent's next child."""
    note: str = ""
    """What the user should know, such as that fewer runs share a batch than he asked for."""

    def widths(self) -> tuple[int, ...]:
        """Return the numbers of runs that a batch may have: all, then half of it, and so on."""
        found = [self.width]
        while found[-1] > self.least_width:
            found.append(max(self.least_width, -(-found[-1] // 2)))
        return tuple(found)


def make_plan(
    network: Network,
    domain: Domain,
    *,
    runs: int,
    population: int,
    compile: Compile = "auto",
    memory: float = 4.0,
    width: int | None = None,
    reuse: bool = True,
) -> Plan:
    """Decide how to run.

    Args:
        network: the network.
        domain: the domain.
        runs: how many runs are wanted.
        population: N.
        compile: "xla" or "graph" to insist on one.
        memory: GiB that the populations may take.
        width: runs in lock step, if the user insists.
        reuse: whether sensitivities may be kept; they take as much memory as the populations, and are the first to go.
    """
    jit, why = _jit(network, compile)
    # XLA drops a batch axis of one and then sums in another order; two lanes keep a lone run the same run.
    least = 2 if jit else 1
    a_run = population * network.size * network.dtype.size
    fits = max(1, int(memory * _GIB // a_run))
    wanted = min(runs, width or runs)
    chosen = min(wanted, fits)
    note = ""
    if chosen < wanted:
        note = (
            f"{chosen} of {runs} runs at a time: a population takes {a_run / _GIB:.2f} GiB and engine.memory is "
            f"{memory:g} GiB"
        )
    room = reuse and 2 * a_run * max(least, chosen) <= memory * _GIB
    return Plan(jit=jit, width=max(least, chosen), least_width=least, why=why, reuse=room, note=note)


def _jit(network: Network, compile: Compile) -> tuple[bool, str]:
    if compile != "auto":
        return compile == "xla", f"compile = {compile!r}"
    mapped = [path for path in network.program.paths if path.way == "mapped"]
    if mapped:
        return False, f"{mapped[0].layer} is mapped ({mapped[0].why})"
    if network.program.uses("Conv1D", "Conv2D", "Conv3D"):
        return False, "convolutions are faster as a plain graph"
    if network.program.long_sequences():
        return False, "long sequences run in a loop"
    return True, "every layer runs natively"
