"""The plugin of the built-in mutation operators: the paper's five, and others."""

from __future__ import annotations

from tfsm import hookimpl
from tfsm.plugins.registry import Registry
from tfsm_plugins.mutations import options

tfsm_hooks = 2


@hookimpl
def tfsm_register_mutations(registry: Registry) -> None:
    """Register the operators by name."""
    _register_paper(registry)
    _register_others(registry)


def _register_paper(registry: Registry) -> None:
    registry.add(
        "control",
        "tfsm_plugins.mutations.gradient_free:Control",
        description="Gaussian noise on every weight: the paper's baseline",
        options=options.ControlOptions,
    )
    registry.add(
        "sm-r",
        "tfsm_plugins.mutations.gradient_free:SafeMutationRescale",
        description="a random direction, rescaled by line search to a target divergence of the outputs",
        options=options.RescaleOptions,
    )
    registry.add(
        "sm-g-sum",
        "tfsm_plugins.mutations.gradient:SafeMutationSum",
        description="noise divided by the summed output gradient; may wash out, costs one backward pass per output",
        options=options.ProbedOptions,
    )
    registry.add(
        "sm-g-abs",
        "tfsm_plugins.mutations.gradient:SafeMutationAbs",
        description="noise divided by the mean absolute output gradient; never washes out, costs the most",
        options=options.ProbedOptions,
    )
    registry.add(
        "sm-g-so",
        "tfsm_plugins.mutations.gradient:SafeMutationSecondOrder",
        description="noise divided by the root of the divergence's curvature along the noise",
        options=options.SecondOrderOptions,
    )


def _register_others(registry: Registry) -> None:
    registry.add(
        "sm-g-rms",
        "tfsm_plugins.mutations.gradient:SafeMutationRms",
        description="noise divided by the root mean square output gradient; never washes out, cheap for many outputs",
        options=options.ProbedOptions,
    )
    registry.add(
        "safe-crossover",
        "tfsm_plugins.mutations.crossover:SafeCrossover",
        description="weights of a second parent, as long as the outputs stay within a divergence of one of the two",
        options=options.CrossoverOptions,
    )
