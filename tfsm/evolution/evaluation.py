"""Calls the domain, checks what it returns, and handles evaluations that fail or take too long."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfsm.abilities import SupportsValidation
from tfsm.errors import TfsmError
from tfsm.evolution.compile_plan import needs_autograph
from tfsm.interfaces import Domain, Evaluation, Failures, Nest, Tensor
from tfsm.models.network import Network

WARM_UP: Final = 120.0
"""Additional seconds for a first evaluation, which may have to load or to compile something."""


@dataclass
class FailurePolicy:
    """What happens when a domain written in plain Python fails or hangs."""

    timeout: float | None = None
    """Seconds that one call may take."""
    failures: Failures = "stop"
    """Whether an individual whose evaluation fails ends the run, or counts as broken."""
    warn: Callable[[str], None] = field(default=lambda message: None)
    """Called with a message for the first individual that counts as broken."""
    failed: bool = False
    """Whether a failure ended the run; the populations are then as they were before the call."""
    broken: int = 0
    """Number of individuals that counted as broken."""

    def evaluate(
        self, evaluate: Callable[[np.ndarray], Any], indices: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Any | None]]:
        """Evaluate individuals, and yield indices together with their result; None where the evaluation failed.

        Args:
            evaluate: from indices of individuals to what the domain returns for them.
            indices: the individuals to evaluate.
        """
        try:
            result = self._call_in_time(evaluate, indices)
        except EvaluationTimeout:
            self.failed = True
            raise
        # SystemExit too: a simulator that calls sys.exit() has failed like any other.
        except (Exception, SystemExit):
            if self.failures == "stop":
                self.failed = True
                raise
            # It is unknown which individual failed, and whether it would again: evaluate each once more, alone.
            for index in indices:
                yield from self._evaluate_alone(evaluate, np.array([index]))
            return
        yield indices, result

    def call_first(self, call: Callable[[], Any]) -> Any:
        """Make a first call, which may have to load or to compile something; exceptions are passed on."""
        return self._call_in_time(lambda _: call(), np.arange(1), WARM_UP)

    def _evaluate_alone(
        self, evaluate: Callable[[np.ndarray], Any], index: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Any | None]]:
        try:
            result = self._call_in_time(evaluate, index)
        except EvaluationTimeout:
            self.failed = True
            raise
        except (Exception, SystemExit) as error:
            if not self.broken:
                self.warn(f"warning: an evaluation failed and counts as broken: {type(error).__name__}: {error}")
            self.broken += 1
            yield index, None
            return
        yield index, result

    def _call_in_time(self, evaluate: Callable[[np.ndarray], Any], indices: np.ndarray, additional: float = 0.0) -> Any:
        if self.timeout is None:
            return evaluate(indices)
        answers: queue.Queue[tuple[bool, Any]] = queue.Queue()

        def answer() -> None:
            try:
                answers.put((True, evaluate(indices)))
            except BaseException as error:
                answers.put((False, error))

        # A thread cannot be ended from outside; a daemon at least does not keep the process from ending.
        threading.Thread(target=answer, daemon=True, name="evaluation").start()
        try:
            succeeded, result = answers.get(timeout=self.timeout + additional)
        except queue.Empty:
            raise EvaluationTimeout(
                f"an evaluation took longer than {self.timeout + additional:g} seconds (evaluation_timeout); it cannot "
                "be ended within this process. With --grain children it can, and the run continues"
            ) from None
        if not succeeded:
            raise result
        return result


class EvaluationTimeout(TfsmError):
    """An evaluation that took too long."""


class Evaluator:
    """Evaluates genomes `[B, P]`, and checks what the domain returns.

    Args:
        domain: the domain.
        network: the network that the genomes belong to.
        jit: whether to compile a domain written in TensorFlow with XLA.
        failure_policy: what happens when a domain written in plain Python fails.
    """

    def __init__(
        self, domain: Domain, network: Network, *, jit: bool, failure_policy: FailurePolicy | None = None
    ) -> None:
        self.domain, self.network, self._jit = domain, network, jit
        self.failure_policy = failure_policy or FailurePolicy()
        self.is_compiled: bool = getattr(domain, "compiled", True)
        """Whether the domain is TensorFlow code."""
        self._example: Evaluation | None = None
        """What a domain written in plain Python returned for the first genome."""
        if self.is_compiled:
            autograph = needs_autograph(domain)
            self._call = tf.function(self._trace, jit_compile=jit, autograph=autograph)
            self._call_graph = tf.function(self._trace, jit_compile=False, autograph=autograph) if jit else self._call
        else:
            self._call = tf.function(self._call_host, jit_compile=False, autograph=False)

    def __call__(self, genomes: Tensor, seed: Tensor, live: Tensor) -> Evaluation:
        """Evaluate genomes `[B, P]` with seeds `[B, 2]`; the results of those that are not `live` are undefined."""
        return self._call(genomes, seed) if self.is_compiled else self._call(genomes, seed, live)

    @cached_property
    def template(self) -> Evaluation:
        """What an evaluation returns for one genome, as `tf.TensorSpec`s without a batch axis.

        TensorFlow code is traced for this; plain Python is called once.
        """
        size, dtype = self.network.size, self.network.dtype
        if self.is_compiled:
            specs = tf.TensorSpec([1, size], dtype), tf.TensorSpec([1, 2], tf.int32)
            result = self._call_graph.get_concrete_function(*specs).structured_outputs
        else:
            genomes, seed = np.zeros([1, size], dtype.as_numpy_dtype), np.zeros([1, 2], np.int32)
            try:
                returned = self.failure_policy.call_first(lambda: self.domain.evaluate(self.network, genomes, seed))
            except SystemExit as error:  # would end the command as if nothing had happened
                raise TfsmError(f"{type(self.domain).__name__}.evaluate called sys.exit({error.code})") from None
            self._example = result = self._check(returned)
        return tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), result)

    @property
    def experience_bytes(self) -> int:
        """Memory of one individual's experience."""
        leaves = tf.nest.flatten(self.template.experience)
        return sum(leaf.shape.num_elements() * leaf.dtype.size for leaf in leaves)

    def sample_experience(self, genome: Tensor) -> Nest:
        """Return the experience of one genome `[1, P]` in a domain written in TensorFlow.

        As a plain graph: an eager roll-out and XLA's compiler both take longer than one evaluation is worth.
        """
        return self._call_graph(genome, tf.zeros([1, 2], tf.int32)).experience

    @cached_property
    def validates(self) -> bool:
        """Whether the domain has validation data."""
        if not isinstance(self.domain, SupportsValidation):
            return False
        genome = tf.constant(self.network.genome[None])
        return bool(self._validate.get_concrete_function(genome).structured_outputs)

    def validate(self, genome: np.ndarray) -> dict[str, float]:
        """Return the domain's measurements of one genome `[P]` on validation data, which selection does not use."""
        measured = self._validate(tf.constant(genome[None], self.network.dtype))
        return {name: float(value[0]) for name, value in measured.items()}

    @cached_property
    def _validate(self) -> Any:
        domain: Any = self.domain
        return tf.function(
            lambda genomes: dict(domain.validate(self.network, genomes)),
            jit_compile=self._jit,
            autograph=needs_autograph(domain),
        )

    def _trace(self, genomes: Tensor, seed: Tensor) -> Evaluation:
        return self._check(self.domain.evaluate(self.network, genomes, seed))

    def _call_host(self, genomes: Tensor, seed: Tensor, live: Tensor) -> Evaluation:
        assert self._example is not None, "the template comes first"
        leaves = tf.nest.flatten(self._example)

        def host(genomes: np.ndarray, seeds: np.ndarray, live: np.ndarray) -> list[np.ndarray]:
            # A simulator is expensive: lanes that have ended are not worth a call.
            results = [np.zeros([len(genomes), *leaf.shape[1:]], leaf.dtype.as_numpy_dtype) for leaf in leaves]
            indices = np.flatnonzero(live)
            if indices.size:
                for at, evaluated in self.failure_policy.evaluate(
                    lambda at: self._evaluate_on_host(genomes[at], seeds[at]), indices
                ):
                    if evaluated is None:
                        results[0][at] = np.nan  # its fitness: broken
                        continue
                    for result, part in zip(results, evaluated, strict=True):
                        result[at] = part
            return results

        flat = tf.numpy_function(host, [genomes, seed, live], [leaf.dtype for leaf in leaves])
        for result, leaf in zip(flat, leaves, strict=True):
            result.set_shape([genomes.shape[0], *leaf.shape[1:]])
        return tf.nest.pack_sequence_as(self._example, flat)

    def _evaluate_on_host(self, genomes: np.ndarray, seeds: np.ndarray) -> list[np.ndarray]:
        """Call the domain, and return the leaves of its result, which must be like those of its first result."""
        evaluation = self._check(self.domain.evaluate(self.network, genomes, seeds))
        name = type(self.domain).__name__
        try:
            tf.nest.assert_same_structure(evaluation, self._example)
        except (TypeError, ValueError):
            raise TfsmError(f"{name}.evaluate returned experience of another structure than at first") from None
        leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(evaluation)]
        for leaf, first in zip(leaves, tf.nest.flatten(self._example), strict=True):
            expected = (len(genomes), *first.shape[1:])
            if leaf.shape != expected:
                raise TfsmError(
                    f"{name}.evaluate was given {len(genomes)} genomes and returned an array of shape {leaf.shape}, "
                    f"expected {expected}"
                )
        return leaves

    def _check(self, returned: Any) -> Evaluation:
        name = type(self.domain).__name__
        if not isinstance(returned, Evaluation):
            raise TfsmError(f"{name}.evaluate returned {type(returned).__name__}, expected tfsm.Evaluation")
        fitness = tf.cast(returned.fitness, tf.float32)
        solved, behavior = tf.cast(returned.solved, tf.bool), tf.convert_to_tensor(returned.behavior)
        lanes = fitness.shape[:1]
        for what, tensor, rank in (("fitness", fitness, 1), ("solved", solved, 1), ("behavior", behavior, 2)):
            if tensor.shape.rank != rank or not lanes.is_compatible_with(tensor.shape[:1]):
                expected = "[B]" if rank == 1 else "[B, D]"
                raise TfsmError(f"{name}.evaluate returned {what} of shape {tensor.shape}, expected {expected}")
        cases = returned.cases
        if not isinstance(cases, tuple):
            cases = tf.cast(cases, tf.float32)
            if cases.shape.rank != 2 or not lanes.is_compatible_with(cases.shape[:1]):
                raise TfsmError(f"{name}.evaluate returned cases of shape {cases.shape}, expected [B, C]")
        experience = tf.nest.map_structure(tf.convert_to_tensor, returned.experience)
        return Evaluation(fitness, solved, behavior, experience, cases)
