"""Truncation selection with generations: the Deep GA of Such et al. (2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.abilities import Admission, Candidate, Population, SelectionContext
from tfsm.errors import TfsmError
from tfsm.interfaces import Choice, Nest, Tensor
from tfsm.kernels.random import uniform
from tfsm_plugins.selections import TruncationOptions


@dataclass(frozen=True, kw_only=True)
class Truncation(TruncationOptions):
    """The best of a generation are the parents of the next one; only elites survive themselves.

    A population of N consists of T parents and their N - T children, which are added one by one. The first generation
    has N individuals. The next parents are the best T of the children and the elites.
    """

    needs: ClassVar[tuple[str, ...]] = ()

    def init(self, context: SelectionContext) -> Nest:
        """Return the state before the first of N initial individuals."""
        population = context.population
        if self.parents >= population or self.elites > self.parents:
            raise TfsmError(
                f"truncation needs elites <= parents < population: got a population of "
                f"{population}, {self.parents} parents and {self.elites} elites"
            )
        return {
            "parents": tf.zeros([self.parents], tf.int32),
            "breeders": tf.constant(0),  # number of valid parents
            "free": tf.range(population),  # slots of the children, in order
            "size": tf.constant(population),  # number of children in this generation
            "born": tf.constant(0),
            "young": tf.zeros([population], tf.bool),  # individuals of this generation
        }

    def generation(self, population: int) -> int:
        """Return the number of children per generation, whose parents stay the same until it is complete."""
        return population - self.parents

    def select(self, population: Population, seed: Tensor) -> Choice:
        """Select a random parent; the child gets the next free slot."""
        state = population.state
        number = uniform(seed, 1)[:, 0] * tf.cast(tf.maximum(state["breeders"], 1), tf.float32)
        parent = tf.gather(state["parents"], tf.cast(number, tf.int32), batch_dims=1)
        return Choice(parent, tf.gather(state["free"], state["born"], batch_dims=1))

    def admit(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Accept every child; start the next generation after the last one."""
        state = population.state
        healthy = tf.math.is_finite(candidate.fitness)
        number = population.fitness.shape[-1]
        slot = tf.equal(tf.range(number), candidate.slot[:, None])
        fitness = tf.where(slot & healthy[:, None], candidate.fitness[:, None], population.fitness)
        young = tf.where(slot, healthy[:, None], state["young"])
        born = state["born"] + 1
        current = {**state, "born": born, "young": young}
        return Admission(candidate.slot, tf.ones_like(healthy), self._start_next_if_complete(current, fitness))

    def admit_generation(self, population: Population, candidates: Candidate, counted: Tensor) -> Admission:
        """Do for those of children `[K, B]` that count what `select` and `admit` do one by one."""
        state = population.state
        healthy = tf.math.is_finite(candidates.fitness)
        number = population.fitness.shape[-1]
        order = state["born"] + tf.cumsum(tf.cast(counted, tf.int32), exclusive=True)
        slot = tf.gather(state["free"], tf.transpose(tf.minimum(order, number - 1)), batch_dims=1)
        slot = tf.transpose(slot)
        takes = counted[..., None] & tf.equal(tf.range(number), slot[..., None])  # [K, B, N]
        enters = takes & healthy[..., None]
        taken, entered = tf.reduce_any(takes, axis=0), tf.reduce_any(enters, axis=0)
        new = tf.reduce_max(tf.where(enters, candidates.fitness[..., None], float("-inf")), axis=0)
        current = {
            **state,
            "born": state["born"] + tf.reduce_sum(tf.cast(counted, tf.int32), axis=0),
            "young": tf.where(taken, entered, state["young"]),
        }
        fitness = tf.where(entered, new, population.fitness)
        return Admission(slot, tf.ones_like(healthy), self._start_next_if_complete(current, fitness))

    def _start_next_if_complete(self, state: dict[str, Tensor], fitness: Tensor) -> dict[str, Tensor]:
        """Return the state at the start of the next generation where this one is complete, else the state as it is."""
        complete = state["born"] >= state["size"]

        def start_next() -> dict[str, Tensor]:
            following = self._next_generation(fitness, state["young"])
            return {
                name: tf.where(tf.reshape(complete, [-1, *[1] * (value.shape.rank - 1)]), following[name], value)
                for name, value in state.items()
            }

        # Sorting takes longer than all the rest, and is needed once per generation.
        return tf.cond(tf.reduce_any(complete), start_next, lambda: state)

    def _next_generation(self, fitness: Tensor, young: Tensor) -> dict[str, Tensor]:
        """Return the state at the start of the next generation."""
        number = fitness.shape[-1]
        eligible = tf.where(young & tf.math.is_finite(fitness), fitness, float("-inf"))
        best, parents = tf.math.top_k(eligible, self.parents)
        slots = tf.range(number)
        is_parent = tf.reduce_any(tf.equal(slots, parents[..., None]), axis=1)  # [B, N]
        # Slots in order, those of the parents last. The keys are unique.
        free = tf.argsort(tf.cast(is_parent, tf.int32) * number + slots, axis=-1)
        elite = tf.reduce_any(tf.equal(slots, parents[:, : self.elites, None]), axis=1)
        lanes = tf.shape(fitness)[0]
        return {
            "parents": parents,
            "breeders": tf.reduce_sum(tf.cast(tf.math.is_finite(best), tf.int32), axis=-1),
            "free": free,
            "size": tf.fill([lanes], number - self.parents),
            "born": tf.zeros([lanes], tf.int32),
            "young": elite & young,
        }
