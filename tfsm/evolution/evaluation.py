"""Call the domain; timeouts and failures."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Domain, Evaluation, Failures, Nest, Tensor
from tfsm.models.network import Network

WARM_UP: Final = 120.0
"""Seconds that a first evaluation may take longer: there is something to load, or to compile."""


@dataclass
class FailurePolicy:
    """Asks a domain, with care."""

    timeout: float | None = None
    """Seconds that one call may take."""
    failures: Failures = "stop"
    """Whether an individual whose evaluation fails ends the run, or counts as broken."""
    warn: Callable[[str], None] = field(default=lambda message: None)
    """Told of the first that counts as broken."""
    failed: bool = False
    """Whether it ended the run; then the populations are as they were before the call."""
    broken: int = 0
    """How many counted as broken."""

    def results(self, ask: Callable[[np.ndarray], Any], places: np.ndarray) -> Iterator[tuple[np.ndarray, Any | None]]:
        """Ask for individuals, and yield some of them together with what was found; None where that fails.

        Args:
            ask: from places among the individuals to what a domain says of them.
            places: those that are wanted.
        """
        try:
            found = self._within_time(ask, places)
        except EvaluationTimeout:
            self.failed = True
            raise
        # SystemExit too: a simulator that calls sys.exit() has failed like any other.
        except (Exception, SystemExit):
            if self.failures == "stop":
                self.failed = True
                raise
            # Nobody knows whose fault it was, or whether it was a passing one: each is asked for once more, alone.
            for place in places:
                yield from self._alone(ask, np.array([place]))
            return
        yield places, found

    def _alone(self, ask: Callable[[np.ndarray], Any], place: np.ndarray) -> Iterator[tuple[np.ndarray, Any | None]]:
        try:
            found = self._within_time(ask, place)
        except EvaluationTimeout:
            self.failed = True
            raise
        except (Exception, SystemExit) as error:
            if not self.broken:
                self.warn(f"warning: an evaluation failed, and counts as broken: {type(error).__name__}: {error}")
            self.broken += 1
            yield place, None
            return
        yield place, found

    def first(self, ask: Callable[[], Any]) -> Any:
        """Ask for the first time, when there may be something to load or to compile; a failure is the caller's."""
        return self._within_time(lambda _: ask(), np.arange(1), WARM_UP)

    def _within_time(self, ask: Callable[[np.ndarray], Any], places: np.ndarray, more: float = 0.0) -> Any:
        if self.timeout is None:
            return ask(places)
        answers: queue.Queue[tuple[bool, Any]] = queue.Queue()

        def answer() -> None:
            try:
                answers.put((True, ask(places)))
            except BaseException as error:
                answers.put((False, error))

        # A thread cannot be ended from outside; a daemon at least does not keep the process from ending.
        threading.Thread(target=answer, daemon=True, name="evaluation").start()
        try:
            well, found = answers.get(timeout=self.timeout + more)
        except queue.Empty:
            raise EvaluationTimeout(
                f"an evaluation took longer than {self.timeout + more:g} seconds (evaluation_timeout); what hangs "
                "cannot be ended within this process: with --grain children it can, and the run goes on"
            ) from None
        if not well:
            raise found
        return found


class EvaluationTimeout(TfsmError):
    """An evaluation that took too long."""


class Evaluator:
    """Evaluates genomes `[B, P]`, and makes sure of what comes back.

    Args:
        domain: the domain.
        network: the network that the genomes belong to.
        jit: whether to compile a domain written in TensorFlow with XLA.
        failure_policy: what to do where a domain that is plain Python fails.
    """

    def __init__(
        self, domain: Domain, network: Network, *, jit: bool, failure_policy: FailurePolicy | None = None
    ) -> None:
        self._domain, self._network = domain, network
        self.failure_policy = failure_policy or FailurePolicy()
        self.compiled: bool = getattr(domain, "compiled", True)
        """Whether the domain is TensorFlow code."""
        self._template: Evaluation | None = None
        self._call = tf.function(self._traced if self.compiled else self._hosted, jit_compile=jit and self.compiled)

    def __call__(self, genomes: Tensor, seed: Tensor, live: Tensor) -> Evaluation:
        """Evaluate genomes `[B, P]` with seeds `[B, 2]`; what is said of those not `live` does not matter."""
        return self._call(genomes, seed) if self.compiled else self._call(genomes, seed, live)

    def template(self, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Return the shapes and types of what comes back, as `tf.TensorSpec`s without the genomes' axis."""
        if self.compiled:
            found = self._call.get_concrete_function(
                tf.TensorSpec(genomes.shape, genomes.dtype), tf.TensorSpec(seed.shape, seed.dtype)
            ).structured_outputs
        else:
            try:
                own = genomes.numpy(), seed.numpy()
                told = self.failure_policy.first(lambda: self._domain.evaluate(self._network, *own))
            except SystemExit as error:  # would end the command as if nothing had happened
                raise TfsmError(f"{type(self._domain).__name__}.evaluate called sys.exit({error.code})") from None
            self._template = found = self._checked(told)
        return tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), found)

    def _traced(self, genomes: Tensor, seed: Tensor) -> Evaluation:
        return self._checked(self._domain.evaluate(self._network, genomes, seed))

    def _hosted(self, genomes: Tensor, seed: Tensor, live: Tensor) -> Evaluation:
        assert self._template is not None, "template() comes first"
        leaves = tf.nest.flatten(self._template)

        def host(own: np.ndarray, seeds: np.ndarray, wanted: np.ndarray) -> list[np.ndarray]:
            # A simulator is dear: lanes that have ended are not worth a call.
            blank = [np.zeros([len(own), *leaf.shape[1:]], leaf.dtype.as_numpy_dtype) for leaf in leaves]
            places = np.flatnonzero(wanted)
            if places.size:
                for some, found in self.failure_policy.results(lambda at: self._asked(own[at], seeds[at]), places):
                    if found is None:
                        blank[0][some] = np.nan  # its fitness: broken
                        continue
                    for whole, part in zip(blank, found, strict=True):
                        whole[some] = part
            return blank

        flat = tf.numpy_function(host, [genomes, seed, live], [leaf.dtype for leaf in leaves])
        for got, leaf in zip(flat, leaves, strict=True):
            got.set_shape([genomes.shape[0], *leaf.shape[1:]])
        return tf.nest.pack_sequence_as(self._template, flat)

    def _asked(self, genomes: np.ndarray, seeds: np.ndarray) -> list[np.ndarray]:
        """Ask the domain, and return the leaves of what it says, which must be like those that it said at first."""
        found = self._checked(self._domain.evaluate(self._network, genomes, seeds))
        name = type(self._domain).__name__
        try:
            tf.nest.assert_same_structure(found, self._template)
        except (TypeError, ValueError):
            raise TfsmError(f"{name}.evaluate returned experience of another structure than at first") from None
        leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(found)]
        for leaf, first in zip(leaves, tf.nest.flatten(self._template), strict=True):
            expected = (len(genomes), *first.shape[1:])
            if leaf.shape != expected:
                raise TfsmError(
                    f"{name}.evaluate was given {len(genomes)} genomes and returned an array of shape {leaf.shape}, "
                    f"expected {expected}"
                )
        return leaves

    def _checked(self, found: Any) -> Evaluation:
        name = type(self._domain).__name__
        if not isinstance(found, Evaluation):
            raise TfsmError(f"{name}.evaluate returned {type(found).__name__}, expected tfsm.Evaluation")
        fitness = tf.cast(found.fitness, tf.float32)
        solved, behavior = tf.cast(found.solved, tf.bool), tf.convert_to_tensor(found.behavior)
        lanes = fitness.shape[:1]
        for what, tensor, rank in (("fitness", fitness, 1), ("solved", solved, 1), ("behavior", behavior, 2)):
            if tensor.shape.rank != rank or not lanes.is_compatible_with(tensor.shape[:1]):
                expected = "[B]" if rank == 1 else "[B, D]"
                raise TfsmError(f"{name}.evaluate returned {what} of shape {tensor.shape}, expected {expected}")
        cases = found.cases
        if not isinstance(cases, tuple):
            cases = tf.cast(cases, tf.float32)
            if cases.shape.rank != 2 or not lanes.is_compatible_with(cases.shape[:1]):
                raise TfsmError(f"{name}.evaluate returned cases of shape {cases.shape}, expected [B, C]")
        seen = tf.nest.map_structure(tf.convert_to_tensor, found.experience)
        return Evaluation(fitness, solved, behavior, seen, cases)


class Trial:
    """One genome evaluated before a run, to know what its experience is like.

    Args:
        domain: the domain.
        network: the network.
        failure_policy: how long to wait for a domain that is plain Python.
    """

    def __init__(self, domain: Domain, network: Network, failure_policy: FailurePolicy | None = None) -> None:
        # As a plain graph: an eager roll-out and XLA's compiler both take longer than one evaluation is worth.
        self._evaluator = Evaluator(domain, network, jit=False, failure_policy=failure_policy)
        blank = tf.zeros([1, network.size], network.dtype), tf.zeros([1, 2], tf.int32)
        self._template = self._evaluator.template(*blank)

    @property
    def experience_bytes(self) -> int:
        """How much memory one individual's experience takes."""
        return sum(leaf.shape.num_elements() * leaf.dtype.size for leaf in tf.nest.flatten(self._template.experience))

    def experience(self, genome: Tensor) -> Nest:
        """Return what a genome `[1, P]` sees."""
        return self._evaluator(genome, tf.zeros([1, 2], tf.int32), tf.ones([1], tf.bool)).experience
