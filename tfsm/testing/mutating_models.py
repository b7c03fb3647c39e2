"""Checks for mutation operators, of what they do to the layers of a model."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfsm.evolution.mapping import recombines
from tfsm.models.network import Network
from tfsm.models.sections import sections
from tfsm.models.selecting import network_of
from tfsm.testing.failure import require
from tfsm.testing.mutations import LANES, call, children, experience
from tfsm.testing.networks import genomes, partly_frozen_model, plain_model, seeds
from tfsm.testing.trying import Subject

SHARE = 0.001


def only_trainable_weights_change(subject: Subject) -> None:
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


def layers_with_a_smaller_share_change_less(subject: Subject) -> None:
    """`--layers` is heeded; an operator that recombines takes weights as they are."""
    if recombines(subject.part):
        return
    ratios = [_first_to_last(subject, layers) for layers in ((), (f"first={SHARE}", "last"))]
    require(
        ratios[1] < 0.1 * ratios[0],
        f"with --layers 'first={SHARE},last' the first layer changes {ratios[1] / ratios[0]:.2g} times as much",
        "draw the noise by network.noise(seed), which knows the layers' shares, instead of gaussian(seed, ...)",
    )


def can_be_traced(subject: Subject) -> None:
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


def _first_to_last(subject: Subject, layers: tuple[str, ...]) -> float:
    """Return how much the first layer's weights change, compared with the last one's."""
    network = network_of(plain_model(), layers)
    change = np.abs(children(subject, network).genome.numpy() - genomes(network, LANES).numpy()).mean(axis=0)
    first, last = (float(section.of(change).mean()) for section in sections(network.model))
    return first / max(last, 1e-30)
