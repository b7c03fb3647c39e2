"""The plugin of the built-in mutation operators: the paper's five, and others. Their names and options.

The operators are in modules of their own, so that listing them and their options imports no TensorFlow. An option that
several operators have is defined once, as an annotated type with its limits and description.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from tfsm import hookimpl
from tfsm.plugins.registry import Registry

tfsm_hooks = 2

Experiences: TypeAlias = Annotated[int, Ge(1), Doc("number of experiences to sample; all if there are fewer")]
Replacement: TypeAlias = Annotated[bool, Doc("sample experiences with replacement")]
Zero: TypeAlias = Annotated[float, Gt(0), Doc("for guard = paper: replaces a sensitivity of exactly zero")]
Floor: TypeAlias = Annotated[float, Gt(0), Doc("for guard = paper: lower bound of all other sensitivities")]
Guard: TypeAlias = Annotated[
    Literal["paper", "relative"],
    Doc("lower bound of sensitivities; paper: zero and floor; relative: guard_share of their root mean square"),
]
GuardShare: TypeAlias = Annotated[float, Gt(0), Le(1), Doc("for guard = relative")]
MaxChange: TypeAlias = Annotated[
    float | None, Gt(0), Doc("maximum change of a single weight with an intensity; none: no limit")
]
Tolerance: TypeAlias = Annotated[float, Gt(0), Lt(1), Doc("relative error of the divergence that ends the search")]
MaxSteps: TypeAlias = Annotated[int, Ge(1), Doc("maximum number of forward passes per line search")]
MeanOverOutputs: TypeAlias = Annotated[bool, Doc("average the divergence over outputs instead of summing it")]
Probes: TypeAlias = Annotated[
    int | None,
    Ge(0),
    Doc("random-sign probes, one backward pass each; 0: exact; none: exact up to 16 outputs, otherwise 16 probes"),
]
UnitDirection: TypeAlias = Annotated[bool, Doc("measure the curvature along the unit vector of the perturbation")]


@dataclass(frozen=True, kw_only=True)
class ControlOptions:
    """Options of the control: none."""


@dataclass(frozen=True, kw_only=True)
class GradientOptions:
    """Common options of the gradient operators."""

    experiences: Experiences = 100
    replacement: Replacement = False
    guard: Guard = "paper"
    guard_share: GuardShare = 0.01
    zero: Zero = 1.0
    floor: Floor = 0.01
    max_change: MaxChange = None


@dataclass(frozen=True, kw_only=True)
class ProbedOptions(GradientOptions):
    """Options of SM-G-SUM, SM-G-ABS and SM-G-RMS."""

    probes: Probes = None


@dataclass(frozen=True, kw_only=True)
class SecondOrderOptions(GradientOptions):
    """Options of SM-G-SO."""

    unit_direction: UnitDirection = True


@dataclass(frozen=True, kw_only=True)
class RescaleOptions:
    """Options of SM-R."""

    experiences: Experiences = 100
    replacement: Replacement = False
    tolerance: Tolerance = 0.01
    max_steps: MaxSteps = 60
    mean_over_outputs: MeanOverOutputs = False


@dataclass(frozen=True, kw_only=True)
class CrossoverOptions:
    """Options of the safe crossover."""

    experiences: Experiences = 100
    replacement: Replacement = False
    tolerance: Tolerance = 0.01
    max_steps: MaxSteps = 60
    share: Annotated[float, Gt(0), Le(1), Doc("share of the weights that may come from the second parent")] = 0.5


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
        options=ControlOptions,
    )
    registry.add(
        "sm-r",
        "tfsm_plugins.mutations.gradient_free:SafeMutationRescale",
        description="a random direction, rescaled by line search to a target divergence of the outputs",
        options=RescaleOptions,
    )
    registry.add(
        "sm-g-sum",
        "tfsm_plugins.mutations.gradient:SafeMutationSum",
        description="noise divided by the summed output gradient; may wash out, costs one backward pass per output",
        options=ProbedOptions,
    )
    registry.add(
        "sm-g-abs",
        "tfsm_plugins.mutations.gradient:SafeMutationAbs",
        description="noise divided by the mean absolute output gradient; never washes out, costs the most",
        options=ProbedOptions,
    )
    registry.add(
        "sm-g-so",
        "tfsm_plugins.mutations.gradient:SafeMutationSecondOrder",
        description="noise divided by the root of the divergence's curvature along the noise",
        options=SecondOrderOptions,
    )


def _register_others(registry: Registry) -> None:
    registry.add(
        "sm-g-rms",
        "tfsm_plugins.mutations.gradient:SafeMutationRms",
        description="noise divided by the root mean square output gradient; never washes out, cheap for many outputs",
        options=ProbedOptions,
    )
    registry.add(
        "safe-crossover",
        "tfsm_plugins.mutations.crossover:SafeCrossover",
        description="weights of a second parent, as long as the outputs stay within a divergence of one of the two",
        options=CrossoverOptions,
    )
