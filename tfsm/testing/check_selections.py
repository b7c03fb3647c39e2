"""Checks for selection schemes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.evolution.variation import chosen
from tfsm.interfaces import Admission, Candidate, Choice, Population, SelectionContext, StatefulSelection, Tensor
from tfsm.kernels.random import fold, uniform
from tfsm.testing.check_common import arrived, differences, require_none, twice, used_by
from tfsm.testing.check_mutations import seeds
from tfsm.testing.suite import Subject, require

BEHAVIOR, CASES = 2, 3


def choose(part: Any, fitness: Tensor, seed: Tensor) -> Choice:
    """Choose in populations `[B, N]` by seeds `[B, 2]`; all else that a scheme may see is drawn by these, too."""
    if not isinstance(part, StatefulSelection):
        return chosen(part, fitness, seed)
    parent, replaced = part.select(_population(part, fitness, seed), seed)
    return Choice(tf.cast(parent, tf.int32), tf.cast(replaced, tf.int32))


def admit(part: StatefulSelection, fitness: Tensor, seed: Tensor) -> tuple[Admission, Population]:
    """Offer one more individual to each population, and return what is said of it, and the populations."""
    population = _population(part, fitness, seed)
    newcomer = Candidate(
        fitness=uniform(fold(seed, 3), 1)[:, 0],
        behavior=uniform(fold(seed, 4), BEHAVIOR),
        cases=uniform(fold(seed, 5), CASES),
        slot=choose(part, fitness, seed).replaced,
    )
    return part.admit(population, newcomer, seed), population


def _population(part: StatefulSelection, fitness: Tensor, seed: Tensor) -> Population:
    lanes, number = fitness.shape

    def drawn(what: str, word: int, size: int) -> Tensor:
        kept = number if what in part.needs else 0
        return tf.reshape(uniform(fold(seed, word), kept * size), [lanes, kept, size])

    surroundings = SelectionContext("a made-up domain", number, BEHAVIOR, CASES, ((0.0, 1.0),) * BEHAVIOR)
    memory = tf.nest.map_structure(
        lambda x: tf.repeat(tf.convert_to_tensor(x)[None], lanes, axis=0), part.memory(surroundings)
    )
    return Population(fitness, drawn("behavior", 1, BEHAVIOR), drawn("cases", 2, CASES), memory)


LANES = 50
POPULATION = 30


def choices_are_individuals(subject: Subject) -> None:
    """Parent and replaced are indices into the population."""
    _are_individuals(subject, fitness_for(subject), "")


def the_same_seed_gives_the_same_choice(subject: Subject) -> None:
    """A choice can be had again."""
    found = differences(*twice(lambda: choices(subject)), exact=True)
    require(
        not found,
        f"the same seed gives two different choices: {'; '.join(found)}",
        "draw all randomness from the seed argument, and use no state",
    )


def a_batch_is_chosen_from_as_one_after_another(subject: Subject) -> None:
    """A choice does not depend on other populations."""
    fitness, together = fitness_for(subject), choices(subject)
    for lane in range(3):
        own = slice(lane, lane + 1)
        found = differences(choices(subject, fitness, lanes=own), Choice(*(index[own] for index in together)))
        require(
            not found,
            "a population is chosen from differently alone and among others",
            "with batched = True every operation must work along the last axis; without it, tfsm maps the scheme",
        )


def broken_individuals_are_no_trouble(subject: Subject) -> None:
    """Populations with broken individuals, of which all but one may be, can be chosen from."""
    fitness = fitness_for(subject).numpy()
    fitness[:, : fitness.shape[1] // 2] = -np.inf
    fitness[1, 1:] = -np.inf
    fitness[2, :] = -np.inf
    _are_individuals(subject, tf.constant(fitness), " where some individuals have the fitness minus infinity")


def acceptance_is_said_for_each(subject: Subject) -> None:
    """`accepts` works element by element, and lets a better child in; `admit` says where, and what is remembered."""
    if isinstance(subject.part, StatefulSelection):
        _are_admitted(subject)
        return
    advice = "compare the tensors element by element, such as child >= replaced"
    for shape in ((3,), (2, 3)):
        child, replaced = (tf.broadcast_to(tf.constant(x), shape) for x in ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]))
        accepted = tf.convert_to_tensor(subject.part.accepts(child, replaced))
        require(
            accepted.dtype == tf.bool and accepted.shape == shape,
            f"accepts returns {accepted.dtype.name} {accepted.shape.as_list()} for children {list(shape)}",
            f"return a bool for each: {advice}",
        )
        require(np.asarray(accepted)[..., 2].all(), "accepts keeps a child out that is better", advice)


def choosing_is_compiled(subject: Subject) -> None:
    """XLA compiles `choose`, and what is compiled chooses the same."""
    fitness, own = fitness_for(subject), seeds(LANES)
    compiled = tf.function(lambda fitness, seed: choose(subject.part, fitness, seed), jit_compile=True)
    found = differences(compiled.get_concrete_function(fitness, own)(fitness, own), choices(subject))
    require(
        not found,
        f"compiled, it chooses differently: {'; '.join(found)}",
        "use TensorFlow operations only: NumPy and Python's if look at values when the code is traced, once",
    )


def no_global_randomness_is_touched(subject: Subject) -> None:
    """Randomness comes from the seed alone."""
    require_none(used_by(lambda: choices(subject)))


def pickles_and_does_the_same(subject: Subject) -> None:
    """In another process it chooses the same."""
    found = differences(choices(subject), choices(subject, part=arrived(subject.part)), exact=True)
    require(not found, f"pickled, it chooses differently: {'; '.join(found)}", "let the options be all there is")


def population_of(part: Any) -> int:
    """Return a population that a scheme works with."""
    return int(getattr(part, "population", POPULATION))


def fitness_for(subject: Subject) -> Tensor:
    """Return the fitness of some populations, `[LANES, N]`."""
    drawn = np.random.default_rng(2).standard_normal((LANES, population_of(subject.part)))
    return tf.constant(drawn, tf.float32)


def choices(subject: Subject, fitness: Tensor | None = None, *, part: Any = None, lanes: slice = slice(None)) -> Choice:
    """Choose in some populations, by the part itself or by another one."""
    own = fitness_for(subject) if fitness is None else fitness
    return choose(part or subject.part, own[lanes], seeds(LANES)[lanes])


def choose_often(part: Any, fitness: Sequence[float], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose in one population so many times, and return the parents and whose places their children take."""
    choice = choose(part, tf.constant([fitness] * count, tf.float32), seeds(count))
    return choice.parent.numpy(), choice.replaced.numpy()


def _are_individuals(subject: Subject, fitness: Tensor, where: str) -> None:
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


def _are_admitted(subject: Subject) -> None:
    fitness = fitness_for(subject)
    found, population = admit(subject.part, fitness, seeds(LANES))
    slot, enters = np.asarray(found.slot), np.asarray(found.enters)
    require(
        slot.shape == enters.shape == (LANES,) and enters.dtype == bool,
        f"admit returns slot {list(slot.shape)} and enters {enters.dtype} {list(enters.shape)} for {LANES} populations",
        "return tfsm.interfaces.Admission(slot, enters, memory): a place and a bool for each population, [B]",
    )
    require(
        slot[enters].min(initial=0) >= 0 and slot[enters].max(initial=0) < fitness.shape[1],
        f"admit returns slots from {slot.min()} to {slot.max()} of {fitness.shape[1]} individuals",
        "return indices from 0 to N - 1",
    )
    specs = [tf.nest.map_structure(lambda x: (x.shape, x.dtype), m) for m in (population.memory, found.memory)]
    require(specs[0] == specs[1], f"the memory was {specs[0]} and becomes {specs[1]}", "keep its shapes and types")
