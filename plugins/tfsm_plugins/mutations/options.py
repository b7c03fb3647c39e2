"""The operators' options, apart from the operators so that listing them imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc


@dataclass(frozen=True, kw_only=True)
class ControlOptions:
    """The control has none."""


@dataclass(frozen=True, kw_only=True)
class ExperienceOptions:
    """How many of the parent's experiences an operator looks at."""

    experiences: Annotated[int, Ge(1), Doc("experiences sampled; all of them where there are no more")] = 100
    replacement: Annotated[bool, Doc("sample experiences with replacement")] = False


@dataclass(frozen=True, kw_only=True)
class SearchOptions(ExperienceOptions):
    """Options of all that search for a wanted divergence."""

    tolerance: Annotated[float, Gt(0), Lt(1), Doc("how far from the wanted divergence is good enough")] = 0.01
    max_steps: Annotated[int, Ge(1), Doc("most forward passes of one line search")] = 60


@dataclass(frozen=True, kw_only=True)
class RescaleOptions(SearchOptions):
    """Options of SM-R, and of all that rescale."""

    mean_over_outputs: Annotated[bool, Doc("average the divergence over outputs instead of summing it")] = False


@dataclass(frozen=True, kw_only=True)
class GuardOptions(ExperienceOptions):
    """The guards between a sensitivity and what is divided by it."""

    zero: Annotated[float, Gt(0), Doc("stands in for a sensitivity of exactly zero")] = 1.0
    floor: Annotated[float, Gt(0), Doc("least sensitivity of any other weight")] = 0.01


@dataclass(frozen=True, kw_only=True)
class GradientOptions(GuardOptions):
    """Options of all SM-G variants."""

    max_change: Annotated[float | None, Gt(0), Doc("most that one weight may change; none: no limit")] = None


@dataclass(frozen=True, kw_only=True)
class CrossoverOptions(SearchOptions):
    """Options of the safe crossover."""

    share: Annotated[float, Gt(0), Le(1), Doc("share of the weights that the second parent is asked for")] = 0.5


@dataclass(frozen=True, kw_only=True)
class SumProbeOptions:
    """How SM-G-SUM's sensitivity is measured."""

    probes: Annotated[
        int | None, Ge(1), Doc("random-sign probes, a backward pass each; none: exactly, a backward pass an output")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RmsProbeOptions:
    """How SM-G-RMS's sensitivity is measured."""

    probes: Annotated[
        int | None,
        Ge(0),
        Doc("random-sign probes, a backward pass each; 0: exactly; none: exactly up to 8 outputs, else by 8 probes"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CurvatureOptions:
    """How SM-G-SO's sensitivity is measured."""

    unit_direction: Annotated[bool, Doc("measure curvature along the perturbation's unit vector")] = True


@dataclass(frozen=True, kw_only=True)
class SumOptions(SumProbeOptions, GradientOptions):
    """Options of SM-G-SUM."""


@dataclass(frozen=True, kw_only=True)
class RmsOptions(RmsProbeOptions, GradientOptions):
    """Options of SM-G-RMS."""


@dataclass(frozen=True, kw_only=True)
class SecondOrderOptions(CurvatureOptions, GradientOptions):
    """Options of SM-G-SO."""


@dataclass(frozen=True, kw_only=True)
class AbsRescaledOptions(GuardOptions, RescaleOptions):
    """Options of SM-G-ABS+R."""


@dataclass(frozen=True, kw_only=True)
class SumRescaledOptions(SumProbeOptions, GuardOptions, RescaleOptions):
    """Options of SM-G-SUM+R."""


@dataclass(frozen=True, kw_only=True)
class RmsRescaledOptions(RmsProbeOptions, GuardOptions, RescaleOptions):
    """Options of SM-G-RMS+R."""


@dataclass(frozen=True, kw_only=True)
class SecondOrderRescaledOptions(CurvatureOptions, GuardOptions, RescaleOptions):
    """Options of SM-G-SO+R."""
