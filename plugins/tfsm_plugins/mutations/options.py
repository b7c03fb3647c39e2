"""Options of the operators. They are apart from the operators, so that listing them imports no TensorFlow.

An option that several operators have is defined once, as an annotated type with its limits and description.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

Experiences: TypeAlias = Annotated[int, Ge(1), Doc("number of experiences to sample; all if there are fewer")]
Replacement: TypeAlias = Annotated[bool, Doc("sample experiences with replacement")]
Zero: TypeAlias = Annotated[float, Gt(0), Doc("replaces a sensitivity of exactly zero")]
Floor: TypeAlias = Annotated[float, Gt(0), Doc("lower bound of all other sensitivities")]
MaxChange: TypeAlias = Annotated[float | None, Gt(0), Doc("maximum change of a single weight; none: no limit")]
Tolerance: TypeAlias = Annotated[float, Gt(0), Lt(1), Doc("relative error of the divergence that ends the search")]
MaxSteps: TypeAlias = Annotated[int, Ge(1), Doc("maximum number of forward passes per line search")]
MeanOverOutputs: TypeAlias = Annotated[bool, Doc("average the divergence over outputs instead of summing it")]
SumProbes: TypeAlias = Annotated[
    int | None,
    Ge(1),
    Doc("random-sign probes, one backward pass each; none: exact, with one backward pass per output"),
]
RmsProbes: TypeAlias = Annotated[
    int | None,
    Ge(0),
    Doc("random-sign probes, one backward pass each; 0: exact; none: exact up to 8 outputs, otherwise 8 probes"),
]
UnitDirection: TypeAlias = Annotated[bool, Doc("measure the curvature along the unit vector of the perturbation")]


@dataclass(frozen=True, kw_only=True)
class ControlOptions:
    """Options of the control: none."""


@dataclass(frozen=True, kw_only=True)
class GradientOptions:
    """Options of SM-G-ABS, and common options of the gradient operators."""

    experiences: Experiences = 100
    replacement: Replacement = False
    zero: Zero = 1.0
    floor: Floor = 0.01
    max_change: MaxChange = None


@dataclass(frozen=True, kw_only=True)
class SumOptions(GradientOptions):
    """Options of SM-G-SUM."""

    probes: SumProbes = None


@dataclass(frozen=True, kw_only=True)
class RmsOptions(GradientOptions):
    """Options of SM-G-RMS."""

    probes: RmsProbes = None


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
class GradientRescaleOptions(RescaleOptions):
    """Options of SM-G-ABS+R, and common options of the rescaled gradient operators."""

    zero: Zero = 1.0
    floor: Floor = 0.01


@dataclass(frozen=True, kw_only=True)
class SumRescaleOptions(GradientRescaleOptions):
    """Options of SM-G-SUM+R."""

    probes: SumProbes = None


@dataclass(frozen=True, kw_only=True)
class RmsRescaleOptions(GradientRescaleOptions):
    """Options of SM-G-RMS+R."""

    probes: RmsProbes = None


@dataclass(frozen=True, kw_only=True)
class SecondOrderRescaleOptions(GradientRescaleOptions):
    """Options of SM-G-SO+R."""

    unit_direction: UnitDirection = True


@dataclass(frozen=True, kw_only=True)
class CrossoverOptions:
    """Options of the safe crossover."""

    experiences: Experiences = 100
    replacement: Replacement = False
    tolerance: Tolerance = 0.01
    max_steps: MaxSteps = 60
    share: Annotated[float, Gt(0), Le(1), Doc("share of the weights that may come from the second parent")] = 0.5
