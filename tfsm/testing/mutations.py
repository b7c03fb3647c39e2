"""Checks for mutation operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.contracts import Child, Tensor
from tfsm.evolution.mapping import Mates, mutated, recombines
from tfsm.models.network import Network
from tfsm.testing.comparing import differences
from tfsm.testing.failure import require
from tfsm.testing.networks import INPUTS, genomes, plain_model, seeds
from tfsm.testing.randomness import require_none, twice, used_by
from tfsm.testing.trying import Subject
from tfsm.testing.values import arrived

LANES = 3
INTENSITY = 0.05
_SEED_ADVICE = "draw all randomness from the seed argument, and use no state: the same arguments, the same child"


def zero_intensity_gives_the_parent(subject: Subject) -> None:
    """Without intensity nothing changes."""
    network = Network(plain_model())
    changed = np.abs(children(subject, network, intensity=0.0).genome - genomes(network, LANES)).max()
    require(
        changed == 0,
        f"with intensity 0 a weight changes by {changed:.3g}",
        "scale every change by the intensity: parent + intensity * change",
    )


def the_same_seed_gives_the_same_child(subject: Subject) -> None:
    """A child can be had again."""
    network = Network(plain_model())
    found = differences(*twice(lambda: children(subject, network)), exact=True)
    require(not found, f"the same seed gives two different children: {'; '.join(found)}", _SEED_ADVICE)


def other_seeds_give_other_children(subject: Subject) -> None:
    """A parent has many children."""
    network = Network(plain_model())
    parents = genomes(network, LANES).numpy()
    drawn = [children(subject, network, first=first).genome.numpy() - parents for first in (0, LANES)]
    changes = {change.round(6).tobytes() for change in np.concatenate(drawn)}
    require(
        len(changes) == 2 * LANES,
        f"{2 * LANES} seeds give {len(changes)} different changes",
        "draw the change from the seed argument, such as network.noise(seed)",
    )
    require(
        all(np.abs(change).max() > 0 for change in np.concatenate(drawn)),
        f"with intensity {INTENSITY} a child is its parent",
        "let every child differ from its parent where the intensity is not 0",
    )


def a_batch_is_mutated_as_one_after_another(subject: Subject) -> None:
    """A child does not depend on who else is in the batch."""
    network = Network(plain_model())
    together = children(subject, network)
    for lane in range(LANES):
        alone = children(subject, network, lanes=slice(lane, lane + 1))
        found = differences(alone, tf.nest.map_structure(lambda x, at=lane: x[at : at + 1], together))
        require(
            not found,
            f"a child differs alone and among others: {'; '.join(found)}",
            "with batched = True every operation must work lane by lane: reduce over the last axis, never over the "
            "first; without it, tfsm maps the operator itself",
        )


def children_are_finite_and_like_their_parents(subject: Subject) -> None:
    """Children have their parents' shape and type, weights that are numbers, and one diagnostic each."""
    network = Network(plain_model())
    for intensity in (1e-6, INTENSITY, 10.0):
        child = children(subject, network, intensity=intensity)
        kind = network.dtype
        require(
            child.genome.shape == (LANES, network.size) and child.genome.dtype == kind,
            f"a child is {child.genome.dtype.name} {_each(child.genome)}, its parent {kind.name} [{network.size}]",
            "return parent + change, in the parent's shape and type",
        )
        require(
            np.isfinite(child.genome).all(),
            f"with intensity {intensity:g} weights are not finite",
            "bound what you divide by (tfsm.kernels.guards.bounded) and what may overflow",
        )
        for name, value in child.diagnostics.items():
            require(
                value.shape == (LANES,) and np.isfinite(value).all(),
                f"the diagnostic {name!r} is {_each(value)} or not finite, expected one finite number for each child",
                "report scalars, [B] from a batched operator",
            )


def dull_experience_leaves_children_finite(subject: Subject) -> None:
    """Parents that saw nothing, one thing or huge things have children, too."""
    network = Network(plain_model())
    cases = {"nothing but zeros": tf.zeros([LANES, 1, INPUTS]), "huge numbers": tf.fill([LANES, 4, INPUTS], 1e4)}
    for what, seen in {**cases, "tiny numbers": tf.fill([1, 4, INPUTS], 1e-20)}.items():
        child = children(subject, network, seen=seen)
        require(
            np.isfinite(child.genome).all(),
            f"a parent that saw {what} has children whose weights are not finite",
            "bound what you divide by: a sensitivity or a norm may be 0 (tfsm.kernels.guards.bounded)",
        )


def no_global_randomness_is_touched(subject: Subject) -> None:
    """Randomness comes from the seed alone."""
    network = Network(plain_model())
    require_none(used_by(lambda: children(subject, network)))


def pickles_and_does_the_same(subject: Subject) -> None:
    """In another process it makes the same children."""
    network = Network(plain_model())
    found = differences(children(subject, network), children(subject, network, part=arrived(subject.part)), exact=True)
    require(not found, f"pickled, it makes other children: {'; '.join(found)}", "let the options be all there is")


def children(
    subject: Subject,
    network: Network,
    *,
    part: Any = None,
    intensity: float = INTENSITY,
    first: int = 0,
    lanes: slice = slice(None),
    seen: Tensor | None = None,
) -> Child:
    """Return children of a few parents, by the part itself or by another one."""
    parents = genomes(network, LANES)[lanes]
    inputs = experience()[lanes] if seen is None else seen
    strength = tf.constant(intensity, network.dtype)
    return call(part or subject.part, network, parents, inputs, strength, seeds(LANES, first)[lanes])


def family(part: Any, network: Network, intensity: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a parent `[P]`, and so many children of it `[count, P]`."""
    parent = genomes(network, 1)
    strength = tf.constant(intensity, network.dtype)
    made = call(part, network, tf.repeat(parent, count, axis=0), experience()[:1], strength, seeds(count))
    return parent.numpy()[0], made.genome.numpy()


def call(part: Any, network: Network, parents: Tensor, seen: Tensor, intensity: Tensor, seed: Tensor) -> Child:
    """Call an operator as the engine does; one that recombines gets mates that saw the same."""
    mates = Mates(-parents[..., ::-1], seen) if recombines(part) else None
    return mutated(part, network, parents, seen, intensity, seed, mates)


def experience() -> Tensor:
    """Return what the parents saw, `[LANES, 5, INPUTS]`."""
    return tf.constant(np.random.default_rng(3).standard_normal((LANES, 5, INPUTS)), tf.float32)


def _each(tensor: Tensor) -> list[int]:
    """Return the shape for one genome."""
    return tensor.shape.as_list()[1:]
