"""Checks for mutation operators."""

from __future__ import annotations

from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from tfsm.evolution.variation import mutate_batch, recombines
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
IMAGE_SEQUENCE: Final = 5
"""Axes of an input of image sequences, which only deep and slow networks have."""
INPUTS: Final = 3
OUTPUTS: Final = 2


def plain_model() -> keras.Model:
    """Return a small model with 3 inputs and 2 outputs."""
    first, last = keras.layers.Dense(4, "tanh", name="first"), keras.layers.Dense(OUTPUTS, "sigmoid", name="last")
    return keras.Sequential([keras.Input((INPUTS,)), first, last])


def partly_frozen_model() -> keras.Model:
    """Return the same with a frozen layer and batch statistics, neither of which is trainable."""
    frozen = keras.layers.Dense(4, "tanh", name="frozen")
    frozen.trainable = False
    first, *rest = plain_model().layers
    return keras.Sequential([keras.Input((INPUTS,)), first, keras.layers.BatchNormalization(), frozen, *rest])


def make_network(domain: Any) -> Network:
    """Return a domain's network, or a small one with the same inputs and outputs if that is large."""
    model = domain.network()
    shape = getattr(model, "input_shape", None)
    if not isinstance(shape, tuple):
        return Network(model)
    if len(shape) == IMAGE_SEQUENCE:
        pooled = keras.layers.TimeDistributed(keras.layers.AveragePooling2D(8))
        reduced = [pooled, keras.layers.TimeDistributed(keras.layers.Flatten())]
        return _small(model, *reduced, keras.layers.SimpleRNN(4, return_sequences=True))
    if model.count_params() > LARGE and len(shape) == 2:
        return _small(model, keras.layers.Dense(4, "tanh"))
    return Network(model)


def seeds(count: int, first: int = 0) -> Tensor:
    """Return different seeds `[count, 2]`."""
    return tf.stack([root_seed(1000 + first + i) for i in range(count)])


def genomes(network: Network, count: int) -> Tensor:
    """Return different genomes `[count, P]`, the same in every call."""
    drawn = 0.5 * np.random.default_rng(1).standard_normal((count, network.size))
    return tf.constant(drawn, network.dtype)


def _small(model: keras.Model, *layers: keras.layers.Layer) -> Network:
    last = keras.layers.Dense(model.output_shape[-1], activation="sigmoid")
    return Network(keras.Sequential([keras.Input(model.input_shape[1:]), *layers, last]))


LANES = 3
INTENSITY = 0.05
_SEED_ADVICE = "draw all randomness from the seed argument, and keep no state"


def zero_intensity_returns_the_parent(subject: PartUnderTest) -> None:
    """With intensity 0 a child is its parent."""
    network = Network(plain_model())
    changed = np.abs(children(subject, network, intensity=0.0).genome - genomes(network, LANES)).max()
    require(
        changed == 0,
        f"with intensity 0 a weight changes by {changed:.3g}",
        "scale every change by the intensity: parent + intensity * change",
    )


def same_seed_gives_the_same_child(subject: PartUnderTest) -> None:
    """Children are reproducible."""
    network = Network(plain_model())
    differences = find_differences(*run_twice(lambda: children(subject, network)), exact=True)
    require(not differences, f"the same seed gives two different children: {'; '.join(differences)}", _SEED_ADVICE)


def different_seeds_give_different_children(subject: PartUnderTest) -> None:
    """Different seeds give different children, none of which is its parent."""
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
        f"with intensity {INTENSITY} a child equals its parent",
        "make every child differ from its parent if the intensity is not 0",
    )


def children_do_not_depend_on_the_batch(subject: PartUnderTest) -> None:
    """A child does not depend on the other parents in the batch."""
    network = Network(plain_model())
    together = children(subject, network)
    for lane in range(LANES):
        alone = children(subject, network, lanes=slice(lane, lane + 1))
        differences = find_differences(alone, tf.nest.map_structure(lambda x, at=lane: x[at : at + 1], together))
        require(
            not differences,
            f"a child differs alone and in a batch: {'; '.join(differences)}",
            "with batched = True every operation must work per genome: reduce over the last axis, never over the "
            "first; without it, tfsm vectorizes the operator",
        )


def children_are_finite_with_the_parent_shape(subject: PartUnderTest) -> None:
    """Children have the parent's shape and dtype, finite weights, and one value per diagnostic."""
    network = Network(plain_model())
    for intensity in (1e-6, INTENSITY, 10.0):
        child = children(subject, network, intensity=intensity)
        require(
            child.genome.shape == (LANES, network.size) and child.genome.dtype == network.dtype,
            f"a child is {child.genome.dtype.name} {_item_shape(child.genome)}, its parent is "
            f"{network.dtype.name} [{network.size}]",
            "return parent + change, in the parent's shape and dtype",
        )
        require(
            np.isfinite(child.genome).all(),
            f"with intensity {intensity:g} some weights are not finite",
            "bound what you divide by (tfsm.kernels.sensitivity.bounded) and what may overflow",
        )
        for name, value in child.diagnostics.items():
            require(
                value.shape == (LANES,) and np.isfinite(value).all(),
                f"diagnostic {name!r} is {_item_shape(value)} or not finite, expected one finite number per child",
                "return scalars, [B] from a batched operator",
            )


def children_are_finite_for_degenerate_experience(subject: PartUnderTest) -> None:
    """Children are finite even if the experience is constant, tiny or huge."""
    network = Network(plain_model())
    cases = {"zeros": tf.zeros([LANES, 1, INPUTS]), "huge numbers": tf.fill([LANES, 4, INPUTS], 1e4)}
    for name, inputs in {**cases, "tiny numbers": tf.fill([1, 4, INPUTS], 1e-20)}.items():
        child = children(subject, network, inputs=inputs)
        require(
            np.isfinite(child.genome).all(),
            f"with an experience of {name} some weights of the children are not finite",
            "bound what you divide by: a sensitivity or a norm may be 0 (tfsm.kernels.sensitivity.bounded)",
        )


def uses_no_global_random_state(subject: PartUnderTest) -> None:
    """Randomness comes from the seed only."""
    network = Network(plain_model())
    require_no_global_generators(global_generators_used(lambda: children(subject, network)))


def behaves_the_same_after_pickling(subject: PartUnderTest) -> None:
    """Another process gets the same children."""
    network = Network(plain_model())
    differences = find_differences(
        children(subject, network), children(subject, network, part=require_pickle_round_trip(subject.part)), exact=True
    )
    require(
        not differences,
        f"after pickling it makes different children: {'; '.join(differences)}",
        "keep no state besides the options",
    )


def children(
    subject: PartUnderTest,
    network: Network,
    *,
    part: Any = None,
    intensity: float = INTENSITY,
    first: int = 0,
    lanes: slice = slice(None),
    inputs: Tensor | None = None,
) -> Child:
    """Return children of a few parents, made by the part or by another one."""
    parents = genomes(network, LANES)[lanes]
    inputs = experience()[lanes] if inputs is None else inputs
    scale = tf.constant(intensity, network.dtype)
    return call(part or subject.part, network, parents, inputs, scale, seeds(LANES, first)[lanes])


def make_siblings(part: Any, network: Network, intensity: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a parent `[P]` and `count` of its children `[count, P]`."""
    parent = genomes(network, 1)
    scale = tf.constant(intensity, network.dtype)
    child = call(part, network, tf.repeat(parent, count, axis=0), experience()[:1], scale, seeds(count))
    return parent.numpy()[0], child.genome.numpy()


def call(part: Any, network: Network, parents: Tensor, inputs: Tensor, intensity: Tensor, seed: Tensor) -> Child:
    """Call an operator as the engine does; one that recombines gets mates with the same experience."""
    mates = (-parents[..., ::-1], inputs) if recombines(part) else None
    return mutate_batch(part, network, parents, inputs, intensity, seed, mates)


def experience() -> Tensor:
    """Return the experience of the parents, `[LANES, 5, INPUTS]`."""
    return tf.constant(np.random.default_rng(3).standard_normal((LANES, 5, INPUTS)), tf.float32)


def _item_shape(tensor: Tensor) -> list[int]:
    """Return the shape per genome."""
    return tensor.shape.as_list()[1:]


SHARE = 0.001


def only_trainable_weights_change(subject: PartUnderTest) -> None:
    """Weights that are not trainable keep their values, and the parent's model is not modified."""
    model = partly_frozen_model()
    network = Network(model)
    before = [variable.numpy().copy() for variable in model.variables]
    child = network.child(children(subject, network).genome[0].numpy())
    for variable, old in zip(model.variables, before, strict=True):
        require(
            (variable.numpy() == old).all(),
            f"the operator modifies {variable.path} of the model",
            "never assign to network.model: use the parent argument, and return a new vector",
        )
    for variable, old in zip(child.variables, before, strict=True):
        require(
            variable.trainable or (variable.numpy() == old).all(),
            f"{variable.path} is not trainable, but differs in the child",
            "change only the genome, which contains the trainable weights",
        )


def layer_shares_are_respected(subject: PartUnderTest) -> None:
    """`--layers` scales the change of each layer; operators that recombine are exempt."""
    if recombines(subject.part):
        return
    ratios = [_first_to_last(subject, layers) for layers in ((), (f"first={SHARE}", "last"))]
    require(
        ratios[1] < 0.1 * ratios[0],
        f"with --layers 'first={SHARE},last' the first layer changes {ratios[1] / ratios[0]:.2g} times as much",
        "draw noise with network.noise(seed), which applies the layers' shares, instead of gaussian(seed, ...)",
    )


def can_be_compiled(subject: PartUnderTest) -> None:
    """TensorFlow compiles it once for all intensities."""
    network = Network(plain_model())
    parents, seed = genomes(network, LANES), seeds(LANES)

    def child(intensity: tf.Tensor) -> tf.Tensor:
        return call(subject.part, network, parents, experience(), intensity, seed).genome

    traced = tf.function(child).get_concrete_function(tf.TensorSpec([], network.dtype))
    for intensity in (0.0, 0.05):
        expected = children(subject, network, intensity=intensity).genome
        # A line search may stop one step earlier or later if numbers are rounded in another order.
        same = np.allclose(traced(tf.constant(intensity)), expected, rtol=2e-2, atol=2e-3)
        require(
            same,
            f"with intensity {intensity} it makes different children when compiled",
            "use only TensorFlow operations: NumPy and Python's if are evaluated once, when the code is traced",
        )


def _first_to_last(subject: PartUnderTest, layers: tuple[str, ...]) -> float:
    """Return the mean change of the first layer's weights relative to the last layer's."""
    network = build_network(plain_model(), layers)
    change = np.abs(children(subject, network).genome.numpy() - genomes(network, LANES).numpy()).mean(axis=0)
    first, last = (float(section.of(change).mean()) for section in find_sections(network.model))
    return first / max(last, 1e-30)
