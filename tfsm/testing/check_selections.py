"""Checks for selection schemes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.abilities import Admission, Candidate, Population, SelectionContext, StatefulSelection
from tfsm.evolution.selection import choose_batch
from tfsm.interfaces import Choice, Tensor
from tfsm.kernels.random import fold_in, uniform
from tfsm.testing.check_common import (
    find_differences,
    global_generators_used,
    require_no_global_generators,
    require_pickle_round_trip,
    run_twice,
)
from tfsm.testing.check_mutations import seeds
from tfsm.testing.suite import PartUnderTest, require

BEHAVIOR, CASES = 2, 3


def choose(part: Any, fitness: Tensor, seed: Tensor) -> Choice:
    """Choose in populations `[B, N]` with seeds `[B, 2]`, from which behavior and cases are drawn too."""
    if not isinstance(part, StatefulSelection):
        return choose_batch(part, fitness, seed)
    parent, replaced = part.select(_population(part, fitness, seed), seed)
    return Choice(tf.cast(parent, tf.int32), tf.cast(replaced, tf.int32))


def admit(part: StatefulSelection, fitness: Tensor, seed: Tensor) -> tuple[Admission, Population]:
    """Offer a candidate to each population; return the admission and the populations."""
    population = _population(part, fitness, seed)
    candidate = Candidate(
        fitness=uniform(fold_in(seed, 3), 1)[:, 0],
        behavior=uniform(fold_in(seed, 4), BEHAVIOR),
        cases=uniform(fold_in(seed, 5), CASES),
        slot=choose(part, fitness, seed).replaced,
    )
    return part.admit(population, candidate, seed), population


def _population(part: StatefulSelection, fitness: Tensor, seed: Tensor) -> Population:
    lanes, number = fitness.shape

    def draw(name: str, word: int, size: int) -> Tensor:
        kept = number if name in part.needs else 0
        return tf.reshape(uniform(fold_in(seed, word), kept * size), [lanes, kept, size])

    context = SelectionContext("test", number, BEHAVIOR, CASES, ((0.0, 1.0),) * BEHAVIOR)
    state = tf.nest.map_structure(lambda x: tf.repeat(tf.convert_to_tensor(x)[None], lanes, axis=0), part.init(context))
    return Population(fitness, draw("behavior", 1, BEHAVIOR), draw("cases", 2, CASES), state)


LANES = 50
POPULATION = 30


def choices_are_valid_indices(subject: PartUnderTest) -> None:
    """Parent and replaced are indices into the population."""
    _require_valid_choices(subject, fitness_for(subject), "")


def same_seed_gives_the_same_choice(subject: PartUnderTest) -> None:
    """Choices are reproducible."""
    differences = find_differences(*run_twice(lambda: choices(subject)), exact=True)
    require(
        not differences,
        f"the same seed gives two different choices: {'; '.join(differences)}",
        "draw all randomness from the seed argument, and keep no state",
    )


def choices_do_not_depend_on_the_batch(subject: PartUnderTest) -> None:
    """A choice does not depend on other populations."""
    fitness, together = fitness_for(subject), choices(subject)
    for lane in range(3):
        lanes = slice(lane, lane + 1)
        differences = find_differences(
            choices(subject, fitness, lanes=lanes), Choice(*(index[lanes] for index in together))
        )
        require(
            not differences,
            "the choice in a population differs alone and in a batch",
            "with batched = True every operation must work along the last axis; without it, tfsm vectorizes the scheme",
        )


def handles_broken_individuals(subject: PartUnderTest) -> None:
    """Choices are valid even if some or all individuals of a population are broken."""
    fitness = fitness_for(subject).numpy()
    fitness[:, : fitness.shape[1] // 2] = -np.inf
    fitness[1, 1:] = -np.inf
    fitness[2, :] = -np.inf
    _require_valid_choices(subject, tf.constant(fitness), " if some individuals have the fitness minus infinity")


def acceptance_is_elementwise(subject: PartUnderTest) -> None:
    """`accepts` works element by element and accepts better children; `admit` returns valid slots and state."""
    if isinstance(subject.part, StatefulSelection):
        _require_valid_admission(subject)
        return
    advice = "compare the tensors element by element, such as child >= replaced"
    for shape in ((3,), (2, 3)):
        child, replaced = (tf.broadcast_to(tf.constant(x), shape) for x in ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]))
        accepted = tf.convert_to_tensor(subject.part.accepts(child, replaced))
        require(
            accepted.dtype == tf.bool and accepted.shape == shape,
            f"accepts returns {accepted.dtype.name} {accepted.shape.as_list()} for children {list(shape)}",
            f"return a bool per child: {advice}",
        )
        require(np.asarray(accepted)[..., 2].all(), "accepts rejects a child that is better", advice)


def choice_can_be_compiled(subject: PartUnderTest) -> None:
    """XLA compiles `choose`, with the same choices."""
    fitness, seed = fitness_for(subject), seeds(LANES)
    compiled = tf.function(lambda fitness, seed: choose(subject.part, fitness, seed), jit_compile=True)
    differences = find_differences(compiled.get_concrete_function(fitness, seed)(fitness, seed), choices(subject))
    require(
        not differences,
        f"it chooses differently when compiled: {'; '.join(differences)}",
        "use only TensorFlow operations: NumPy and Python's if are evaluated once, when the code is traced",
    )


def uses_no_global_random_state(subject: PartUnderTest) -> None:
    """Randomness comes from the seed only."""
    require_no_global_generators(global_generators_used(lambda: choices(subject)))


def behaves_the_same_after_pickling(subject: PartUnderTest) -> None:
    """Another process gets the same choices."""
    differences = find_differences(
        choices(subject), choices(subject, part=require_pickle_round_trip(subject.part)), exact=True
    )
    require(
        not differences,
        f"after pickling it chooses differently: {'; '.join(differences)}",
        "keep no state besides the options",
    )


def population_size(part: Any) -> int:
    """Return a population size that a scheme supports."""
    return int(getattr(part, "population", POPULATION))


def fitness_for(subject: PartUnderTest) -> Tensor:
    """Return the fitness of some populations, `[LANES, N]`."""
    drawn = np.random.default_rng(2).standard_normal((LANES, population_size(subject.part)))
    return tf.constant(drawn, tf.float32)


def choices(
    subject: PartUnderTest, fitness: Tensor | None = None, *, part: Any = None, lanes: slice = slice(None)
) -> Choice:
    """Choose in some populations, with the part or with another one."""
    fitness = fitness_for(subject) if fitness is None else fitness
    return choose(part or subject.part, fitness[lanes], seeds(LANES)[lanes])


def sample_choices(part: Any, fitness: Sequence[float], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose in one population `count` times; return the parents and the individuals to be replaced."""
    choice = choose(part, tf.constant([fitness] * count, tf.float32), seeds(count))
    return choice.parent.numpy(), choice.replaced.numpy()


def _require_valid_choices(subject: PartUnderTest, fitness: Tensor, where: str) -> None:
    for name, index in zip(Choice._fields, choices(subject, fitness), strict=True):
        values = np.asarray(index)
        require(
            values.shape == (LANES,),
            f"choose returns {name} of shape {list(values.shape)[1:]}{where}",
            "return tfsm.Choice(parent, replaced): two scalars, [B] from a batched scheme",
        )
        require(
            values.min() >= 0 and values.max() < fitness.shape[1],
            f"choose returns a {name} from {values.min()} to {values.max()} of {fitness.shape[1]} individuals{where}",
            "return indices from 0 to N - 1; N is fitness.shape[-1]",
        )


def _require_valid_admission(subject: PartUnderTest) -> None:
    fitness = fitness_for(subject)
    admission, population = admit(subject.part, fitness, seeds(LANES))
    slot, accepted = np.asarray(admission.slot), np.asarray(admission.accepted)
    require(
        slot.shape == accepted.shape == (LANES,) and accepted.dtype == bool,
        f"admit returns for {LANES} populations a slot {list(slot.shape)} and accepted {accepted.dtype} "
        f"{list(accepted.shape)}",
        "return tfsm.abilities.Admission(slot, accepted, state): a slot and a bool per population, [B]",
    )
    require(
        slot[accepted].min(initial=0) >= 0 and slot[accepted].max(initial=0) < fitness.shape[1],
        f"admit returns slots from {slot.min()} to {slot.max()} of {fitness.shape[1]} individuals",
        "return indices from 0 to N - 1",
    )
    specs = [tf.nest.map_structure(lambda x: (x.shape, x.dtype), m) for m in (population.state, admission.state)]
    require(specs[0] == specs[1], f"the state was {specs[0]} and becomes {specs[1]}", "keep its shapes and dtypes")
