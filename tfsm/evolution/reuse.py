"""Sensitivities kept for a parent's next child.

About half of all children have a parent that had one before. Where a sensitivity depends on the parent alone it is kept
beside the population, and only the lanes whose parent has none yet are measured, in a batch that is just wide enough.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from typing_extensions import TypeIs

from tfsm.contracts import Domain, Mutation, Nest, Reusable, Tensor
from tfsm.evolution.mapping import one_by_one
from tfsm.evolution.plan import Plan
from tfsm.evolution.state import State
from tfsm.models.network import Network


class Reuse:
    """Mutates with kept sensitivities.

    Args:
        network: the network.
        domain: the domain.
        mutation: an operator for which `can_reuse` holds.
        plan: how to compile.
    """

    def __init__(self, network: Network, domain: Domain, mutation: Reusable, plan: Plan) -> None:
        self._network, self._domain, self._mutation = network, domain, mutation
        self._least = plan.least_width
        self._one_by_one = plan.one_by_one
        measure = one_by_one(self._measured) if plan.one_by_one else self._measured
        self._measure = tf.function(measure, jit_compile=plan.jit)
        self._child = tf.function(self._children, jit_compile=plan.jit)
        self._begun = {width: tf.Variable(False, trainable=False) for width in plan.widths()}

    def children(
        self,
        state: State,
        lanes: Tensor,
        slots: Tensor,
        parents: Tensor,
        experience: Nest,
        strength: Tensor,
        seed: Tensor,
    ) -> Tensor:
        """Return children `[W, P]` of the parents at these places, measuring those that were not measured before."""
        place = tf.stack([lanes, slots], axis=-1)
        known = state.measured.gather_nd(place)
        missing = tf.cast(tf.where(~known)[:, 0], tf.int32)
        measure = self._measure_missing if self._one_by_one else self._measure_in_batch
        with tf.control_dependencies([measure(state, place, known, missing, parents, experience)]):
            state.measured.scatter_nd_update(place, tf.ones_like(known))
            sensitivity = state.sensitivity.gather_nd(place)
        return self._child(parents, sensitivity, strength, seed)

    def _measure_missing(
        self, state: State, place: Tensor, known: Tensor, missing: Tensor, parents: Tensor, experience: Nest
    ) -> Tensor:
        own, seen = tf.nest.map_structure(lambda x: tf.gather(x, missing), (parents, experience))
        state.sensitivity.scatter_nd_update(tf.gather(place, missing), self._measure(own, seen))
        return tf.shape(missing)[0]

    def _measure_in_batch(
        self, state: State, place: Tensor, known: Tensor, missing: Tensor, parents: Tensor, experience: Nest
    ) -> Tensor:
        count, width = tf.shape(missing)[0], int(place.shape[0])
        widths = self._widths(width)

        def measure(width: int) -> Any:
            def branch() -> Tensor:
                # Lanes that are known fill the batch up; measuring them again changes nothing.
                order = tf.argsort(tf.cast(known, tf.int32), stable=True)[:width]
                found = self._measure(
                    tf.gather(parents, order), tf.nest.map_structure(lambda x: tf.gather(x, order), experience)
                )
                state.sensitivity.scatter_nd_update(tf.gather(place, order), found)
                return count

            return branch

        measures = [measure(width) for width in widths]
        self._once(self._begun[width], measures, count)
        branches = [lambda: count, *measures]
        chosen = tf.add_n([tf.cast(count > bound, tf.int32) for bound in (0, *widths[:-1])])
        return tf.switch_case(chosen, branches)

    def _once(self, begun: tf.Variable, measures: list[Any], count: Tensor) -> None:
        """Measure in every way in the first step of a width, whose call then pays for compiling them.

        A branch is compiled when it is first taken, which would otherwise be in the midst of a later call.
        """

        def all_of_them() -> Tensor:
            begun.assign(True)
            return tf.add_n([measure() for measure in measures])

        tf.cond(begun, lambda: count, all_of_them)

    def _widths(self, width: int) -> tuple[int, ...]:
        """Return the widths that are compiled: half of the lanes, which mostly suffices, and all of them."""
        return tuple(sorted({max(self._least, -(-width // 2)), width}))

    def _measured(self, parents: Tensor, experience: Nest) -> Tensor:
        seen = self._domain.observe(experience)
        return self._mutation.sensitivity(self._network, parents, seen, tf.zeros_like(parents))

    def _children(self, parents: Tensor, sensitivity: Tensor, strength: Tensor, seed: Tensor) -> Tensor:
        return self._mutation.child(self._network, parents, sensitivity, strength, seed)


def can_reuse(mutation: Mutation, network: Network, available: int) -> TypeIs[Reusable]:
    """Say whether an operator's sensitivity depends on the parent alone, given so many experiences."""
    return isinstance(mutation, Reusable) and mutation.batched and mutation.reusable(network, available)
