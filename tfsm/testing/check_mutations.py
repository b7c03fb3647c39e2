"""Checks for mutation operators."""

from __future__ import annotations

from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from tfsm.evolution.variation import Mates, mutate_batch, recombines
from tfsm.interfaces import Child, Tensor
from tfsm.kernels.random import root_seed
from tfsm.models.genome import find_sections
from tfsm.models.network import Network, build_network
from tfsm.testing.check_common import (
    find_differences,
    global_generators_used,
    require_no_global_generators,
    require_pickle_round_trip,
    run_twice,
)
from tfsm.testing.suite import PartUnderTest, require

LARGE: Final = 100_000
PICTURES: Final = 5
"""Axes of sequences of pictures: deep networks see them, which take long."""
INPUTS: Final = 3
ANSWERS: Final = 2


def plain_model() -> keras.Model:
    """Return a small model for operators: 3 numbers in, 2 out."""
    first, last = keras.layers.Dense(4, "tanh", name="first"), keras.layers.Dense(ANSWERS, "sigmoid", name="last")
    return keras.Sequential([keras.Input((INPUTS,)), first, last])


def partly_frozen_model() -> keras.Model:
    """Return the same with a layer that does not learn, and with statistics, which do not either."""
    frozen = keras.layers.Dense(4, "tanh", name="frozen")
    frozen.trainable = False
    first, *rest = plain_model().layers
    return keras.Sequential([keras.Input((INPUTS,)), first, keras.layers.BatchNormalization(), frozen, *rest])


def make_network(domain: Any) -> Network:
    """Return a domain's network; where that is a large one, a small one that takes and gives the same."""
    model = domain.network()
    shape = getattr(model, "input_shape", None)
    if not isinstance(shape, tuple):
        return Network(model)
    if len(shape) == PICTURES:
        pooled = keras.layers.TimeDistributed(keras.layers.AveragePooling2D(8))
        seen = [pooled, keras.layers.TimeDistributed(keras.layers.Flatten())]
        return _small(model, *seen, keras.layers.SimpleRNN(4, return_sequences=True))
    if model.count_params() > LARGE and len(shape) == 2:
        return _small(model, keras.layers.Dense(4, "tanh"))
    return Network(model)


def seeds(count: int, first: int = 0) -> Tensor:
    """Return different seeds `[count, 2]`."""
    return tf.stack([root_seed(1000 + first + i) for i in range(count)])


def genomes(network: Network, count: int) -> Tensor:
    """Return different genomes `[count, P]`, always the same ones."""
    drawn = 0.5 * np.random.default_rng(1).standard_normal((count, network.size))
    return tf.constant(drawn, network.dtype)


def _small(model: keras.Model, *layers: keras.layers.Layer) -> Network:
    last = keras.layers.Dense(model.output_shape[-1], activation="sigmoid")
    return Network(keras.Sequential([keras.Input(model.input_shape[1:]), *layers, last]))


LANES = 3
INTENSITY = 0.05
_SEED_ADVICE = "draw all randomness from the seed argument, and use no state: the same arguments, the same child"


def zero_intensity_returns_the_parent(subject: PartUnderTest) -> None:
    """Without intensity nothing changes."""
    network = Network(plain_model())
    changed = np.abs(children(subject, network, intensity=0.0).genome - genomes(network, LANES)).max()
    require(
        changed == 0,
        f"with intensity 0 a weight changes by {changed:.3g}",
        "scale every change by the intensity: parent + intensity * change",
    )


def same_seed_gives_the_same_child(subject: PartUnderTest) -> None:
    """A child can be had again."""
    network = Network(plain_model())
    found = find_differences(*run_twice(lambda: children(subject, network)), exact=True)
    require(not found, f"the same seed gives two different children: {'; '.join(found)}", _SEED_ADVICE)


def different_seeds_give_different_children(subject: PartUnderTest) -> None:
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


def children_do_not_depend_on_the_batch(subject: PartUnderTest) -> None:
    """A child does not depend on who else is in the batch."""
    network = Network(plain_model())
    together = children(subject, network)
    for lane in range(LANES):
        alone = children(subject, network, lanes=slice(lane, lane + 1))
        found = find_differences(alone, tf.nest.map_structure(lambda x, at=lane: x[at : at + 1], together))
        require(
            not found,
            f"a child differs alone and among others: {'; '.join(found)}",
            "with batched = True every operation must work lane by lane: reduce over the last axis, never over the "
            "first; without it, tfsm maps the operator itself",
        )


def children_are_finite_with_the_parent_shape(subject: PartUnderTest) -> None:
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
            "bound what you divide by (tfsm.kernels.sensitivity.bounded) and what may overflow",
        )
        for name, value in child.diagnostics.items():
            require(
                value.shape == (LANES,) and np.isfinite(value).all(),
                f"the diagnostic {name!r} is {_each(value)} or not finite, expected one finite number for each child",
                "report scalars, [B] from a batched operator",
            )


def children_are_finite_for_degenerate_experience(subject: PartUnderTest) -> None:
    """Parents that saw nothing, one thing or huge things have children, too."""
    network = Network(plain_model())
    cases = {"nothing but zeros": tf.zeros([LANES, 1, INPUTS]), "huge numbers": tf.fill([LANES, 4, INPUTS], 1e4)}
    for what, seen in {**cases, "tiny numbers": tf.fill([1, 4, INPUTS], 1e-20)}.items():
        child = children(subject, network, seen=seen)
        require(
            np.isfinite(child.genome).all(),
            f"a parent that saw {what} has children whose weights are not finite",
            "bound what you divide by: a sensitivity or a norm may be 0 (tfsm.kernels.sensitivity.bounded)",
        )


def uses_no_global_random_state(subject: PartUnderTest) -> None:
    """Randomness comes from the seed alone."""
    network = Network(plain_model())
    require_no_global_generators(global_generators_used(lambda: children(subject, network)))


def behaves_the_same_after_pickling(subject: PartUnderTest) -> None:
    """In another process it makes the same children."""
    network = Network(plain_model())
    found = find_differences(
        children(subject, network), children(subject, network, part=require_pickle_round_trip(subject.part)), exact=True
    )
    require(not found, f"pickled, it makes other children: {'; '.join(found)}", "let the options be all there is")


def children(
    subject: PartUnderTest,
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


def make_siblings(part: Any, network: Network, intensity: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a parent `[P]`, and so many children of it `[count, P]`."""
    parent = genomes(network, 1)
    strength = tf.constant(intensity, network.dtype)
    made = call(part, network, tf.repeat(parent, count, axis=0), experience()[:1], strength, seeds(count))
    return parent.numpy()[0], made.genome.numpy()


def call(part: Any, network: Network, parents: Tensor, seen: Tensor, intensity: Tensor, seed: Tensor) -> Child:
    """Call an operator as the engine does; one that recombines gets mates that saw the same."""
    mates = Mates(-parents[..., ::-1], seen) if recombines(part) else None
    return mutate_batch(part, network, parents, seen, intensity, seed, mates)


def experience() -> Tensor:
    """Return what the parents saw, `[LANES, 5, INPUTS]`."""
    return tf.constant(np.random.default_rng(3).standard_normal((LANES, 5, INPUTS)), tf.float32)


def _each(tensor: Tensor) -> list[int]:
    """Return the shape for one genome."""
    return tensor.shape.as_list()[1:]


SHARE = 0.001


def only_trainable_weights_change(subject: PartUnderTest) -> None:
    """Layers that do not learn stay as they are, and the parent's model itself is left alone."""
    model = partly_frozen_model()
    network = Network(model)
    before = [variable.numpy().copy() for variable in model.variables]
    child = network.child(children(subject, network).genome[0].numpy())
    for variable, old in zip(model.variables, before, strict=True):
        require(
            (variable.numpy() == old).all(),
            f"the operator changes {variable.path} of the model that it is given",
            "never assign to network.model: take the weights from the parent argument, and return a new vector",
        )
    for variable, old in zip(child.variables, before, strict=True):
        require(
            variable.trainable or (variable.numpy() == old).all(),
            f"{variable.path}, which is not trainable, differs in the child",
            "change the genome only, which has the trainable weights",
        )


def layer_shares_are_respected(subject: PartUnderTest) -> None:
    """`--layers` is heeded; an operator that recombines takes weights as they are."""
    if recombines(subject.part):
        return
    ratios = [_first_to_last(subject, layers) for layers in ((), (f"first={SHARE}", "last"))]
    require(
        ratios[1] < 0.1 * ratios[0],
        f"with --layers 'first={SHARE},last' the first layer changes {ratios[1] / ratios[0]:.2g} times as much",
        "draw the noise by network.noise(seed), which knows the layers' shares, instead of gaussian(seed, ...)",
    )


def can_be_compiled(subject: PartUnderTest) -> None:
    """TensorFlow can compile it once for all intensities."""
    network = Network(plain_model())
    parents, own = genomes(network, LANES), seeds(LANES)

    def child(intensity: tf.Tensor) -> tf.Tensor:
        return call(subject.part, network, parents, experience(), intensity, own).genome

    traced = tf.function(child).get_concrete_function(tf.TensorSpec([], network.dtype))
    for intensity in (0.0, 0.05):
        expected = children(subject, network, intensity=intensity).genome
        # A line search may stop a step earlier or later where numbers are rounded in another order.
        same = np.allclose(traced(tf.constant(intensity)), expected, rtol=2e-2, atol=2e-3)
        require(
            same,
            f"compiled, it makes other children with intensity {intensity}",
            "use TensorFlow operations only: NumPy and Python's if look at values when the code is traced, once",
        )


def _first_to_last(subject: PartUnderTest, layers: tuple[str, ...]) -> float:
    """Return how much the first layer's weights change, compared with the last one's."""
    network = build_network(plain_model(), layers)
    change = np.abs(children(subject, network).genome.numpy() - genomes(network, LANES).numpy()).mean(axis=0)
    first, last = (float(section.of(change).mean()) for section in find_sections(network.model))
    return first / max(last, 1e-30)
