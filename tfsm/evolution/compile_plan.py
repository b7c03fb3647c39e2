"""Decides how to run: XLA or a plain graph, how many runs share a batch, and how much memory they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Compile, Nest
from tfsm.models.network import Network

_GIB = 2**30
_OWN_PACKAGES = ("tfsm", "tfsm_plugins", "tfsm_domains")
_REUSE_SHARE = 0.125
"""Sensitivities are kept where one run with them takes no more than this share of the memory."""


@dataclass(frozen=True)
class Plan:
    """How to run: with XLA or as a plain graph, how many runs at once, and why; written to `run.json`."""

    jit: bool
    runs: int
    """Runs evolved in lock step."""
    least_width: int
    """The narrowest batch; fewer runs than that are filled up with idle lanes."""
    why: str
    bytes_each: int
    """Memory of one run: genomes, experience, and sensitivities where they are kept."""
    reuse: bool = False
    """Whether there is room to keep sensitivities for a parent's next child."""
    one_by_one: bool = False
    """Whether operators get the parent of one run at a time instead of those of all runs."""
    note: str = ""
    """A note for the user, such as that fewer runs share a batch than were asked for."""

    @property
    def width(self) -> int:
        """Number of lanes of a batch."""
        return max(self.least_width, self.runs)

    def widths(self) -> tuple[int, ...]:
        """Return the widths that a batch may have: all lanes, then half of them, and so on."""
        widths = [self.width]
        while widths[-1] > self.least_width:
            widths.append(max(self.least_width, -(-widths[-1] // 2)))
        return tuple(widths)


def make_plan(
    network: Network,
    *,
    runs: int,
    population: int,
    experience_bytes: int = 0,
    offspring: int = 1,
    compile: Compile = "auto",
    memory: float = 4.0,
    width: int | None = None,
    reuse: bool = True,
) -> Plan:
    """Decide how to run.

    Args:
        network: the network.
        runs: number of runs.
        population: N.
        experience_bytes: memory of one individual's experience.
        offspring: children per run that are made at once.
        compile: "xla" or "graph"; "auto" decides by the network.
        memory: maximum GiB of the populations.
        width: runs in lock step; None: as many as fit the memory.
        reuse: whether sensitivities may be kept, which takes as much memory as the genomes.
    """
    jit, why = choose_compiler(network, compile)
    genomes = population * network.size * network.dtype.size
    per_run = genomes + population * experience_bytes
    # Decided by one run, whatever their number: it may change the last digits of results.
    room = reuse and per_run + genomes <= _REUSE_SHARE * memory * _GIB
    per_run += genomes if room else 0
    if offspring > 1:
        per_run += offspring * (network.size * network.dtype.size + experience_bytes)
    requested = min(runs, width or runs)
    chosen = min(requested, max(1, int(memory * _GIB // per_run)))
    note = ""
    if chosen < requested:
        note = f"{chosen} of {runs} runs at a time, since one takes {_size(per_run)}"
    if per_run > memory * _GIB:
        note = f"one run takes {_size(per_run)}"
    if note:
        note += f" and engine.memory is {memory:g} GiB"
    return Plan(
        jit=jit,
        runs=chosen,
        # XLA drops a batch axis of one and then sums in another order; two lanes keep a lone run the same run.
        least_width=2 if jit else 1,
        why=why,
        bytes_each=per_run,
        reuse=room,
        # A pass through convolutions is long enough for a call of its own, and its memory is what limits a batch.
        one_by_one=not jit and network.program.convolutional,
        note=note,
    )


def _size(count: float) -> str:
    if count < 0.1 * 2**20:
        return f"{count:,.0f} bytes"
    return f"{count / _GIB:,.2f} GiB" if count > 0.1 * _GIB else f"{count / 2**20:.1f} MiB"


@dataclass(frozen=True)
class Limits:
    """What fits some memory: one run that takes all of it, with two of three sizes as they are, and the third as large.

    Attributes:
        population: the largest population.
        weights: the most weights of a network.
        experience: the most bytes of experience per individual.
    """

    population: int
    weights: int
    experience: int

    def __str__(self) -> str:
        return (
            f"a population of {self.population:,}, or {self.weights:,} weights, or {_size(self.experience)} of "
            "experience per individual"
        )


def find_limits(memory: float, *, population: int, weights: int, weight_bytes: int, experience_bytes: int) -> Limits:
    """Return what fits some memory.

    Args:
        memory: bytes.
        population: N.
        weights: P.
        weight_bytes: bytes of a weight.
        experience_bytes: memory of one individual's experience.

    >>> find_limits(8e9, population=100, weights=10**6, weight_bytes=4, experience_bytes=0)
    Limits(population=1994, weights=18867924, experience=75760000)
    """
    # Every genome, and the copies of one that a child takes.
    individual = weights * weight_bytes
    left = memory - CHILD_COPIES * individual
    return Limits(
        population=max(0, int(left // (individual + experience_bytes))),
        weights=max(0, int((memory - population * experience_bytes) // (weight_bytes * (population + CHILD_COPIES)))),
        experience=max(0, int(left / population - individual)),
    )


CHILD_COPIES: Final = 6
"""Copies of its weights that a child takes while it is made."""


def check_memory(
    plan: Plan, available: float | None, *, population: int, weights: int, weight_bytes: int, experience_bytes: int
) -> None:
    """Raise an error if runs do not fit the memory, before it is allocated; see `find_limits` for the sizes.

    Args:
        plan: how many runs share it.
        available: bytes; None if that is unknown.
        population: N.
        weights: P.
        weight_bytes: bytes of a weight.
        experience_bytes: memory of one individual's experience.
    """
    children = (1 if plan.one_by_one else plan.width) * CHILD_COPIES * weights * weight_bytes
    needed = plan.runs * plan.bytes_each + children
    if available is None or needed <= available:
        return
    sizes = {"population": population, "weights": weights, "weight_bytes": weight_bytes}
    limits = find_limits(available, **sizes, experience_bytes=experience_bytes)
    fewer = ", or fewer runs at once (engine.width)" if plan.runs > 1 else ""
    raise TfsmError(
        f"not enough memory: {plan.runs} run{'s' * (plan.runs > 1)} at once of a population of {population:,} with "
        f"{weights:,} weights and {_size(experience_bytes)} of experience each need {_size(needed)}, and "
        f"{_size(available)} are available; one run has room for {limits}{fewer}"
    )


def choose_compiler(network: Network, compile: Compile = "auto") -> tuple[bool, str]:
    """Return whether to compile with XLA, and why."""
    if compile != "auto":
        return compile == "xla", f"compile = {compile!r}"
    reason = network.program.reason_against_xla()
    return not reason, reason or "every layer runs natively"


def needs_autograph(*parts: object) -> bool:
    """Return whether one of the parts may use Python's `if` and `for` on tensors, which AutoGraph has to convert.

    The parts of tfsm itself do not, and converting them would take a second or two at the start of every run.
    """
    return any(type(part).__module__.partition(".")[0] not in _OWN_PACKAGES for part in parts)


class TracedFunction:
    """Like `tf.function`, for a function of tensors whose shapes seldom change.

    Every engine has its own functions. TensorFlow, which counts traces per line of code, would warn of retracing where
    there is none.

    Args:
        function: a function of tensors, or of nests of them that always have the same structure.
        jit: whether to compile it with XLA.
        autograph: whether to convert Python's control flow.
    """

    def __init__(self, function: Callable[..., Any], *, jit: bool = False, autograph: bool = False) -> None:
        self._function = tf.function(function, jit_compile=jit or None, autograph=autograph)
        self._concrete: dict[tuple[Any, ...], Any] = {}

    @property
    def traces(self) -> int:
        """Number of traces."""
        return int(self._function.experimental_get_tracing_count())

    def __call__(self, *arguments: Nest) -> Any:
        """Call the function; it is traced first where these shapes are new."""
        key = tuple((tuple(tensor.shape), tensor.dtype) for tensor in tf.nest.flatten(arguments))
        if key not in self._concrete:
            specs = tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), arguments)
            self._concrete[key] = self._function.get_concrete_function(*specs)
        return self._concrete[key](*arguments)
