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
    """What a domain says of a few genomes, and how it came to say so.

    Args:
        subject: the domain.
    """

    def __init__(self, subject: PartUnderTest) -> None:
        self._subject, self.network = subject, subject.network
        self.genomes, self.seeds = genomes(subject.network, LANES), seeds(LANES)
        self.used: list[str] = []
        """The global generators that were used for it."""
        self.found, self.second = run_twice(self.again, self.used)
        """The evaluation of all genomes, two times."""

    def again(self, lanes: slice = slice(None), *, part: Any = None, changed: Tensor | None = None) -> Evaluation:
        """Evaluate once more: some of the genomes, or others instead, by the domain itself or by another one."""
        own = (self.genomes if changed is None else changed)[lanes]
        return evaluate_as_engine(part or self._subject.part, self.network, own, self.seeds[lanes])


def evaluate_as_engine(domain: Any, network: Any, own: Tensor, seed: Tensor) -> Evaluation:
    """Evaluate as the engine does: TensorFlow code is traced, plain Python gets arrays."""
    if not getattr(domain, "compiled", True):
        return domain.evaluate(network, np.asarray(own), np.asarray(seed))
    # One shape each: a function called with several would be warned of.
    traced = tf.function(lambda own, seed: domain.evaluate(network, own, seed))
    return traced.get_concrete_function(own, seed)(own, seed)


NAN, INFINITE = 1, 2
"""Lanes that get a broken genome."""


def network_returns_a_new_built_model(subject: PartUnderTest) -> None:
    """Every call of network() returns a model of its own, built, of the same size."""
    first, second = subject.part.network(), subject.part.network()
    require(
        isinstance(first, keras.Model) and first.built,
        f"network() returns {type(first).__name__}, or a model that is not built",
        "return a Keras model that begins with keras.Input(shape)",
    )
    require(
        first is not second and Network(first).size == Network(second).size,
        "network() returns one model twice, or models of different sizes",
        "make a new model in every call, from the options alone",
    )


def evaluation_shapes_are_correct(subject: PartUnderTest) -> None:
    """Fitness and solved are `[B]`, behavior is `[B, D]`, experience begins with `B`."""
    found = subject.tried.found
    require(isinstance(found, Evaluation), f"evaluate returns {type(found).__name__}", "return a tfsm.Evaluation")
    fitness, solved, behavior = (np.asarray(x) for x in (found.fitness, found.solved, found.behavior))
    for what, values, wanted in (("fitness", fitness, "f"), ("solved", solved, "b")):
        require(
            values.shape == (LANES,) and values.dtype.kind == wanted,
            f"{what} of {LANES} genomes is {values.dtype} {list(values.shape)}",
            f"return one {'number' if wanted == 'f' else 'bool'} for each genome, [B]",
        )
    require(
        behavior.ndim == 2 and len(behavior) == LANES,
        f"the behavior of {LANES} genomes is {list(behavior.shape)}",
        "return D numbers for each genome, [B, D]",
    )
    cases = getattr(found, "cases", ())
    require(
        isinstance(cases, tuple) or (np.ndim(cases) == 2 and len(cases) == LANES),
        f"the cases of {LANES} genomes are {list(np.shape(cases))}",
        "return one number for each case, [B, C], or () where there are none",
    )
    names = getattr(subject.part, "behavior_names", None)
    require(
        names is None or len(names) == behavior.shape[1],
        f"behavior_names are {names}, and the behavior has {behavior.shape[1]} numbers",
        "name each number of the behavior",
    )
    for leaf in tf.nest.flatten(found.experience):
        require(
            np.ndim(leaf) > 0 and np.shape(leaf)[0] == LANES,
            f"a tensor of the experience of {LANES} genomes is {list(np.shape(leaf))}",
            "return tensors [B, ...], or () where all see the same",
        )


def evaluations_are_finite(subject: PartUnderTest) -> None:
    """Ordinary genomes get numbers."""
    found = subject.tried.found
    for what, values in (("fitness", found.fitness), ("behavior", found.behavior)):
        broken = int((~np.isfinite(values)).sum())
        require(
            broken == 0,
            f"{broken} numbers of the {what} of {LANES} ordinary genomes are not finite",
            "only a genome whose outputs are not finite is broken; look for divisions by 0 and overflow",
        )


def same_seed_gives_the_same_evaluation(subject: PartUnderTest) -> None:
    """An evaluation can be had again."""
    found = find_differences(subject.tried.second, subject.tried.found, exact=True)
    require(
        not found,
        f"the same genomes and seeds are evaluated differently the second time: {'; '.join(found)}",
        "draw all randomness from the seed argument, and reset whatever a simulator remembers",
    )


def evaluations_do_not_depend_on_the_batch(subject: PartUnderTest) -> None:
    """A result does not depend on who else is in the batch."""
    for lanes in (slice(0, 1), slice(3, 5)):
        expected = tf.nest.map_structure(lambda x, at=lanes: x[at], subject.tried.found)
        found = find_differences(subject.tried.again(lanes), expected)
        require(
            not found,
            f"genomes are evaluated differently alone and among others: {'; '.join(found)}",
            "reduce over an individual's own axes only, never over the first; use seed[b], not seed[0], for genome b",
        )


def fitness_and_solved_are_consistent(subject: PartUnderTest) -> None:
    """Whoever solves the task has a finite fitness; a broken genome has none, solves nothing and harms nobody."""
    own = subject.tried.genomes.numpy()
    own[NAN], own[INFINITE] = np.nan, np.inf
    found = subject.tried.again(changed=tf.constant(own))
    fitness, solved = np.asarray(found.fitness), np.asarray(found.solved)
    require(
        not np.isfinite(fitness[NAN]),
        f"a genome of NaN has the fitness {fitness[NAN]:g}",
        "let NaN through to the fitness: max, clip and comparisons hide it; tf.where(finite, fitness, nan) says it",
    )
    # An infinite weight need not reach an output.
    require(
        not solved[[NAN, INFINITE]].any() and np.isfinite(fitness[solved]).all(),
        "a broken genome counts as solved",
        "write solved so that NaN gives False: error < tolerance, not ~(error >= tolerance)",
    )
    healthy = np.delete(fitness, [NAN, INFINITE])
    require(
        np.isfinite(healthy).all(),
        "a broken genome breaks the fitness of others in its batch",
        "keep genomes apart: 0 * NaN is NaN, so that masks and matrix products spread it",
    )
    ordinary = subject.tried.found
    require(
        np.isfinite(np.asarray(ordinary.fitness)[np.asarray(ordinary.solved)]).all(),
        "a genome counts as solved, and its fitness is not finite",
        "give whoever solves the task a fitness",
    )


def fitness_distinguishes_genomes(subject: PartUnderTest) -> None:
    """Fitness tells genomes apart."""
    fitness = np.asarray(subject.tried.found.fitness)
    require(
        len(np.unique(fitness.round(6))) > 1,
        f"{LANES} random genomes all have the fitness {fitness[0]:g}",
        "let fitness depend on what the network does; give partial credit, or evolution has nothing to go by",
    )


def experience_converts_to_network_inputs(subject: PartUnderTest) -> None:
    """What was kept becomes inputs of the network, in compiled code, too."""
    network, found = subject.network, subject.tried.found
    kept = tf.nest.map_structure(tf.convert_to_tensor, found.experience)
    observed = subject.part.observe(kept)
    leaves, inputs = tf.nest.flatten(to_dense(observed)), network.model.inputs
    require(len(leaves) == len(inputs), f"observe returns {len(leaves)} inputs", f"the network takes {len(inputs)}")
    for leaf, wanted in zip(leaves, inputs, strict=True):
        axes = tuple(leaf.shape[2:])
        require(
            leaf.shape[0] in (1, LANES) and len(axes) == len(wanted.shape[1:]),
            f"observe returns {list(leaf.shape)} for {LANES} individuals and a network that takes {wanted.shape[1:]}",
            "return [B, I, ...], or [1, I, ...] where all see the same: I inputs as the network takes them",
        )
        require(
            all(want in (None, have) for want, have in zip(wanted.shape[1:], axes, strict=True)),
            f"observe returns inputs of shape {list(axes)}, the network takes {list(wanted.shape[1:])}",
            "return inputs as the network takes them",
        )
        require(np.isfinite(leaf).all(), "observe returns numbers that are not finite", "keep only what was seen")
    again = tf.function(lambda: to_dense(subject.part.observe(kept))).get_concrete_function()()
    different = find_differences(again, to_dense(observed))
    require(not different, f"observed twice it differs: {'; '.join(different)}", "let observe be a pure function")
    rows = network.rows(subject.tried.genomes, observed)
    require(
        rows.shape[0] == LANES and np.isfinite(rows).all(),
        "the network's answers to what was observed are not finite",
        "scale inputs to a few units",
    )


def uses_no_global_random_state(subject: PartUnderTest) -> None:
    """Randomness comes from the seed alone."""
    require_no_global_generators(subject.tried.used)


def behaves_the_same_after_pickling(subject: PartUnderTest) -> None:
    """In another process it evaluates the same."""
    lanes = slice(0, 2)
    found = find_differences(
        subject.tried.again(lanes, part=require_pickle_round_trip(subject.part)), subject.tried.again(lanes), exact=True
    )
    require(not found, f"pickled, it evaluates differently: {'; '.join(found)}", "let the options be all there is")
