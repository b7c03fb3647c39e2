"""Parts written for one genome or one population, mapped over many; parts written for many, called as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfsm.contracts import Child, Choice, Mutation, Nest, Selection, Tensor
from tfsm.errors import TfsmError
from tfsm.kernels.frames import dense
from tfsm.models.network import Network

LANES_AT_ONCE = 2
"""Lanes that may be on their way at once where they are taken one by one; more would take more memory."""


class Mates(NamedTuple):
    """The second parents, for an operator that recombines."""

    genomes: Tensor
    """`[B, P]`"""
    experience: Nest
    """`[B, I, ...]`, or `[1, I, ...]` where all see the same."""


def recombines(mutation: Mutation) -> bool:
    """Say whether an operator needs a second parent."""
    return bool(getattr(mutation, "mates", False))


def mutated(
    mutation: Mutation,
    network: Network,
    parents: Tensor,
    experience: Nest,
    intensity: Tensor,
    seed: Tensor,
    mates: Mates | None = None,
) -> Child:
    """Mutate parents `[B, P]` that saw `[B, I, ...]` (or `[1, I, ...]`) with seeds `[B, 2]`.

    Args:
        mutation: the operator.
        network: the network.
        parents: `[B, P]`.
        experience: what they saw.
        intensity: one number, or `[B, 1]` where each has its own.
        seed: `[B, 2]`.
        mates: whom an operator that recombines is given besides.
    """
    if recombines(mutation) and mates is None:
        raise TfsmError(
            f"the operator {type(mutation).__name__} recombines two parents, and here is only one: it works within "
            "`tfsm run`, `tfsm compare` and `tfsm.evolve`"
        )
    if getattr(mutation, "batched", False):
        more = {} if mates is None else {"mate": mates.genomes, "mate_experience": mates.experience}
        return as_child(mutation(network, parents, experience, intensity, seed, **more))
    lanes = parents.shape[0] or tf.shape(parents)[0]

    def wide(nest: Nest) -> Nest:
        return tf.nest.map_structure(lambda x: tf.repeat(x, lanes, axis=0) if x.shape[0] == 1 else x, dense(nest))

    own = tf.broadcast_to(tf.reshape(intensity, [-1]), [lanes])

    def one(arguments: tuple[Any, ...]) -> Child:
        parent, seen, strength, own_seed, *second = arguments
        more = {"mate": second[0], "mate_experience": second[1]} if second else {}
        return as_child(mutation(network, parent, seen, strength, own_seed, **more))

    second = () if mates is None else (mates.genomes, wide(mates.experience))
    return Child(*tf.vectorized_map(one, (parents, wide(experience), own, seed, *second)))


def one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of batches that takes their lanes one after another.

    For what is slow enough to be worth a call of its own: it is traced once, however many lanes there are, and takes
    the memory of few lanes.
    """
    single = tf.function(function)

    def alone(arguments: Nest) -> Nest:
        found = single(*tf.nest.map_structure(lambda x: x[None], arguments))
        return tf.nest.map_structure(lambda x: x[0], found)

    def mapped(*arguments: Nest) -> Nest:
        specs = tf.nest.map_structure(lambda x: tf.TensorSpec([1, *x.shape[1:]], x.dtype), arguments)
        found = single.get_concrete_function(*specs).structured_outputs
        signature = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), found)
        return tf.map_fn(alone, arguments, fn_output_signature=signature, parallel_iterations=LANES_AT_ONCE)

    return mapped


def as_child(result: Tensor | Child) -> Child:
    """Return what an operator gave as a child with diagnostics."""
    if isinstance(result, Child):
        return Child(result.genome, dict(result.diagnostics))
    return Child(result, {})


def chosen(selection: Selection, fitness: Tensor, seed: Tensor) -> Choice:
    """Choose in populations `[B, N]` with seeds `[B, 2]`; indices are int32."""
    if getattr(selection, "batched", False):
        parent, replaced = selection.choose(fitness, seed)
    else:
        parent, replaced = tf.vectorized_map(lambda pair: selection.choose(*pair), (fitness, seed))
    return Choice(tf.cast(parent, tf.int32), tf.cast(replaced, tf.int32))
