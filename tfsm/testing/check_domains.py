"""Checks for domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tfsm.interfaces import Evaluation, Tensor
from tfsm.kernels.experience import to_dense
from tfsm.models.network import Network
from tfsm.testing.check_common import (
    find_differences,
    require_no_global_generators,
    require_pickle_round_trip,
    run_twice,
)
from tfsm.testing.check_mutations import genomes, seeds
from tfsm.testing.suite import PartUnderTest, require

if TYPE_CHECKING:
    from tfsm.testing.suite import PartUnderTest


LANES = 8


class TrialEvaluation:
    """A domain's evaluation of a few genomes, done twice, and the global generators that it used.

    Args:
        subject: the domain.
    """

    def __init__(self, subject: PartUnderTest) -> None:
        self._subject, self.network = subject, subject.network
        self.genomes, self.seeds = genomes(subject.network, LANES), seeds(LANES)
        self.generators: list[str] = []
        """The global generators that the evaluations used."""
        self.evaluation, self.repeated = run_twice(self.evaluate, self.generators)
        """The evaluation of all genomes, and the same again."""

    def evaluate(self, lanes: slice = slice(None), *, part: Any = None, changed: Tensor | None = None) -> Evaluation:
        """Evaluate some of the genomes, or other genomes, with the domain or with another one."""
        genomes = (self.genomes if changed is None else changed)[lanes]
        return evaluate_as_engine(part or self._subject.part, self.network, genomes, self.seeds[lanes])


def evaluate_as_engine(domain: Any, network: Any, genomes: Tensor, seed: Tensor) -> Evaluation:
    """Evaluate as the engine does: TensorFlow code is traced, plain Python gets arrays."""
    if not getattr(domain, "compiled", True):
        return domain.evaluate(network, np.asarray(genomes), np.asarray(seed))
    # One function per shape: TensorFlow warns about a function that is traced again and again.
    traced = tf.function(lambda genomes, seed: domain.evaluate(network, genomes, seed))
    return traced.get_concrete_function(genomes, seed)(genomes, seed)


NAN, INFINITE = 1, 2
"""Lanes with a broken genome."""


def network_returns_a_new_built_model(subject: PartUnderTest) -> None:
    """Every call of network() returns a new, built model of the same size."""
    first, second = subject.part.network(), subject.part.network()
    require(
        isinstance(first, keras.Model) and first.built,
        f"network() returns {type(first).__name__}, or a model that is not built",
        "return a Keras model that starts with keras.Input(shape)",
    )
    require(
        first is not second and Network(first).size == Network(second).size,
        "network() returns the same model twice, or models of different sizes",
        "create a new model in every call, from the options only",
    )


def evaluation_shapes_are_correct(subject: PartUnderTest) -> None:
    """Fitness and solved are `[B]`, behavior is `[B, D]`, the first axis of experience is `B`."""
    evaluation = subject.trial.evaluation
    require(
        isinstance(evaluation, Evaluation), f"evaluate returns {type(evaluation).__name__}", "return a tfsm.Evaluation"
    )
    fitness, solved, behavior = (np.asarray(x) for x in evaluation[:3])
    for name, values, kind in (("fitness", fitness, "f"), ("solved", solved, "b")):
        require(
            values.shape == (LANES,) and values.dtype.kind == kind,
            f"{name} of {LANES} genomes is {values.dtype} {list(values.shape)}",
            f"return one {'number' if kind == 'f' else 'bool'} per genome, [B]",
        )
    require(
        behavior.ndim == 2 and len(behavior) == LANES,
        f"the behavior of {LANES} genomes is {list(behavior.shape)}",
        "return D numbers per genome, [B, D]",
    )
    cases = getattr(evaluation, "cases", ())
    require(
        isinstance(cases, tuple) or (np.ndim(cases) == 2 and len(cases) == LANES),
        f"the cases of {LANES} genomes are {list(np.shape(cases))}",
        "return one number per case, [B, C], or () without cases",
    )
    names = getattr(subject.part, "behavior_names", None)
    require(
        names is None or len(names) == behavior.shape[1],
        f"behavior_names is {names}, but the behavior has {behavior.shape[1]} numbers",
        "name each number of the behavior",
    )
    for leaf in tf.nest.flatten(evaluation.experience):
        require(
            np.ndim(leaf) > 0 and np.shape(leaf)[0] == LANES,
            f"a tensor of the experience of {LANES} genomes is {list(np.shape(leaf))}",
            "return tensors [B, ...], or () if the experience is the same for all",
        )


def evaluations_are_finite(subject: PartUnderTest) -> None:
    """Ordinary genomes get finite numbers."""
    evaluation = subject.trial.evaluation
    for name, values in (("fitness", evaluation.fitness), ("behavior", evaluation.behavior)):
        broken = int((~np.isfinite(values)).sum())
        require(
            broken == 0,
            f"{broken} numbers of the {name} of {LANES} ordinary genomes are not finite",
            "only a genome with outputs that are not finite is broken; look for divisions by 0 and overflow",
        )


def same_seed_gives_the_same_evaluation(subject: PartUnderTest) -> None:
    """Evaluations are reproducible."""
    differences = find_differences(subject.trial.repeated, subject.trial.evaluation, exact=True)
    require(
        not differences,
        f"the same genomes and seeds give different evaluations: {'; '.join(differences)}",
        "draw all randomness from the seed argument, and reset the state of simulators",
    )


def evaluations_do_not_depend_on_the_batch(subject: PartUnderTest) -> None:
    """An evaluation does not depend on the other genomes in the batch."""
    for lanes in (slice(0, 1), slice(3, 5)):
        expected = tf.nest.map_structure(lambda x, at=lanes: x[at], subject.trial.evaluation)
        differences = find_differences(subject.trial.evaluate(lanes), expected)
        require(
            not differences,
            f"genomes are evaluated differently alone and in a batch: {'; '.join(differences)}",
            "never reduce over the first axis; use seed[b], not seed[0], for genome b",
        )


def fitness_and_solved_are_consistent(subject: PartUnderTest) -> None:
    """Solved genomes have a finite fitness; broken ones have none, do not count as solved and do not affect others."""
    broken = subject.trial.genomes.numpy()
    broken[NAN], broken[INFINITE] = np.nan, np.inf
    evaluation = subject.trial.evaluate(changed=tf.constant(broken))
    fitness, solved = np.asarray(evaluation.fitness), np.asarray(evaluation.solved)
    require(
        not np.isfinite(fitness[NAN]),
        f"a genome of NaN has the fitness {fitness[NAN]:g}",
        "propagate NaN to the fitness: max, clip and comparisons hide it; tf.where(finite, fitness, nan) does not",
    )
    # An infinite weight need not reach an output.
    require(
        not solved[[NAN, INFINITE]].any() and np.isfinite(fitness[solved]).all(),
        "a broken genome counts as solved",
        "compute solved so that NaN gives False: error < tolerance, not ~(error >= tolerance)",
    )
    healthy = np.delete(fitness, [NAN, INFINITE])
    require(
        np.isfinite(healthy).all(),
        "a broken genome breaks the fitness of others in the batch",
        "keep genomes separate: 0 * NaN is NaN, so masks and matrix products spread it",
    )
    ordinary = subject.trial.evaluation
    require(
        np.isfinite(np.asarray(ordinary.fitness)[np.asarray(ordinary.solved)]).all(),
        "a genome counts as solved, but its fitness is not finite",
        "return a finite fitness for every solved genome",
    )


def fitness_distinguishes_genomes(subject: PartUnderTest) -> None:
    """Different genomes have different fitness."""
    fitness = np.asarray(subject.trial.evaluation.fitness)
    require(
        len(np.unique(fitness.round(6))) > 1,
        f"{LANES} random genomes all have the fitness {fitness[0]:g}",
        "let fitness depend on the network's outputs; without partial credit, evolution has no gradient to follow",
    )


def experience_converts_to_network_inputs(subject: PartUnderTest) -> None:
    """`observe` turns experience into network inputs, in compiled code too."""
    network, evaluation = subject.network, subject.trial.evaluation
    experience = tf.nest.map_structure(tf.convert_to_tensor, evaluation.experience)
    observed = subject.part.observe(experience)
    leaves, inputs = tf.nest.flatten(to_dense(observed)), network.model.inputs
    require(len(leaves) == len(inputs), f"observe returns {len(leaves)} inputs", f"the network has {len(inputs)}")
    for leaf, expected in zip(leaves, inputs, strict=True):
        axes = tuple(leaf.shape[2:])
        require(
            leaf.shape[0] in (1, LANES) and len(axes) == len(expected.shape[1:]),
            f"observe returns {list(leaf.shape)} for {LANES} individuals and network inputs {expected.shape[1:]}",
            "return [B, I, ...], or [1, I, ...] if all see the same: I inputs of the network",
        )
        require(
            all(size in (None, actual) for size, actual in zip(expected.shape[1:], axes, strict=True)),
            f"observe returns inputs of shape {list(axes)}, the network has {list(expected.shape[1:])}",
            "return inputs of the network's shape",
        )
        require(np.isfinite(leaf).all(), "observe returns numbers that are not finite", "return only what was observed")
    again = tf.function(lambda: to_dense(subject.part.observe(experience))).get_concrete_function()()
    different = find_differences(again, to_dense(observed))
    require(
        not different,
        f"observe returns different inputs when compiled: {'; '.join(different)}",
        "make observe a pure function",
    )
    rows = network.rows(subject.trial.genomes, observed)
    require(
        rows.shape[0] == LANES and np.isfinite(rows).all(),
        "the network's outputs for the observed inputs are not finite",
        "scale inputs to a few units",
    )


def uses_no_global_random_state(subject: PartUnderTest) -> None:
    """Randomness comes from the seed only."""
    require_no_global_generators(subject.trial.generators)


def behaves_the_same_after_pickling(subject: PartUnderTest) -> None:
    """Another process gets the same evaluations."""
    lanes = slice(0, 2)
    differences = find_differences(
        subject.trial.evaluate(lanes, part=require_pickle_round_trip(subject.part)),
        subject.trial.evaluate(lanes),
        exact=True,
    )
    require(
        not differences,
        f"after pickling it evaluates differently: {'; '.join(differences)}",
        "keep no state besides the options",
    )
