"""The paper's five mutation operators, registered as a plugin like anybody's."""

from __future__ import annotations

from tfsm import hookimpl
from tfsm.registry import Registry
from tfsm_mutations.options import ControlOptions, GradientOptions, RescaleOptions, SecondOrderOptions


@hookimpl
def tfsm_register_mutations(registry: Registry) -> None:
    """Register the operators by name."""
    registry.add(
        "control",
        "tfsm_mutations.control:Control",
        description="Gaussian noise on every weight: the paper's baseline",
        options=ControlOptions,
    )
    registry.add(
        "sm-r",
        "tfsm_mutations.rescale:SafeMutationRescale",
        description="a random direction, rescaled by line search to a wanted divergence of the outputs",
        options=RescaleOptions,
    )
    registry.add(
        "sm-g-sum",
        "tfsm_mutations.gradient_sum:SafeMutationSum",
        description="noise divided by the summed output gradient; may wash out, costs one backward pass an output",
        options=GradientOptions,
    )
    registry.add(
        "sm-g-abs",
        "tfsm_mutations.gradient_abs:SafeMutationAbs",
        description="noise divided by the mean absolute output gradient; never washes out, costs the most",
        options=GradientOptions,
    )
    registry.add(
        "sm-g-so",
        "tfsm_mutations.second_order:SafeMutationSecondOrder",
        description="noise divided by the root of the divergence's curvature along the noise",
        options=SecondOrderOptions,
    )
