"""Truncation selection in generations: the Deep GA of Such et al. (2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Admission, Candidate, Choice, Nest, Population, SelectionContext, Tensor
from tfsm.kernels.random import uniform
from tfsm_plugins.selections.options import TruncationOptions


@dataclass(frozen=True, kw_only=True)
class Truncation(TruncationOptions):
    """The best of a generation breed the next one, to which nobody but the very best belongs of the old one.

    A population of N holds T parents and the N - T children that are born to them one after the other; the first
    generation are N individuals. The parents of the next are the best T of the children and the elites.
    """

    needs: ClassVar[tuple[str, ...]] = ()

    def init(self, context: SelectionContext) -> Nest:
        """Return the beginning: a generation of N individuals of whom none is born."""
        population = context.population
        if self.parents >= population or self.elites > self.parents:
            raise TfsmError(
                f"truncation needs more individuals than parents, and no more elites than these: got a population of "
                f"{population}, {self.parents} parents and {self.elites} elites"
            )
        return {
            "parents": tf.zeros([self.parents], tf.int32),
            "breeders": tf.constant(0),  # how many of them are any good
            "free": tf.range(population),  # where children go
            "size": tf.constant(population),  # of this generation
            "born": tf.constant(0),
            "young": tf.zeros([population], tf.bool),  # who belongs to this generation
        }

    def select(self, population: Population, seed: Tensor) -> Choice:
        """Let any of the parents breed; the child goes to the next free place."""
        state = population.state
        number = uniform(seed, 1)[:, 0] * tf.cast(tf.maximum(state["breeders"], 1), tf.float32)
        parent = tf.gather(state["parents"], tf.cast(number, tf.int32), batch_dims=1)
        return Choice(parent, tf.gather(state["free"], state["born"], batch_dims=1))

    def admit(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Let every child in; after the last of a generation the next one begins."""
        state = population.state
        healthy = tf.math.is_finite(candidate.fitness)
        number = population.fitness.shape[-1]
        here = tf.equal(tf.range(number), candidate.slot[:, None])
        fitness = tf.where(here & healthy[:, None], candidate.fitness[:, None], population.fitness)
        young = tf.where(here, healthy[:, None], state["young"])
        born = state["born"] + 1
        now = {**state, "born": born, "young": young}
        over = born >= state["size"]
        after = self._next(fitness, young)
        state = {
            name: tf.where(tf.reshape(over, [-1, *[1] * (value.shape.rank - 1)]), after[name], value)
            for name, value in now.items()
        }
        return Admission(candidate.slot, tf.ones_like(healthy), state)

    def _next(self, fitness: Tensor, young: Tensor) -> dict[str, Tensor]:
        """Return the state at the beginning of the next generation."""
        number = fitness.shape[-1]
        eligible = tf.where(young & tf.math.is_finite(fitness), fitness, float("-inf"))
        best, parents = tf.math.top_k(eligible, self.parents)
        place = tf.range(number)
        breeds = tf.reduce_any(tf.equal(place, parents[..., None]), axis=1)  # [B, N]
        # Places in order, those of the parents last: a key that is unique.
        free = tf.argsort(tf.cast(breeds, tf.int32) * number + place, axis=-1)
        elite = tf.reduce_any(tf.equal(place, parents[:, : self.elites, None]), axis=1)
        lanes = tf.shape(fitness)[0]
        return {
            "parents": parents,
            "breeders": tf.reduce_sum(tf.cast(tf.math.is_finite(best), tf.int32), axis=-1),
            "free": free,
            "size": tf.fill([lanes], number - self.parents),
            "born": tf.zeros([lanes], tf.int32),
            "young": elite & young,
        }
