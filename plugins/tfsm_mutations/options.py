"""The operators' options, apart from the operators so that listing them imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Lt
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
class RescaleOptions(ExperienceOptions):
    """Options of SM-R."""

    tolerance: Annotated[float, Gt(0), Lt(1), Doc("how far from the wanted divergence is good enough")] = 0.01
    max_steps: Annotated[int, Ge(1), Doc("most forward passes of one line search")] = 60
    mean_over_outputs: Annotated[bool, Doc("average the divergence over outputs instead of summing it")] = False


@dataclass(frozen=True, kw_only=True)
class GradientOptions(ExperienceOptions):
    """Options of all SM-G variants: the guards between a sensitivity and a perturbation."""

    zero: Annotated[float, Gt(0), Doc("stands in for a sensitivity of exactly zero")] = 1.0
    floor: Annotated[float, Gt(0), Doc("least sensitivity of any other weight")] = 0.01
    max_change: Annotated[float | None, Gt(0), Doc("most that one weight may change; none: no limit")] = None


@dataclass(frozen=True, kw_only=True)
class SecondOrderOptions(GradientOptions):
    """Options of SM-G-SO."""

    unit_direction: Annotated[bool, Doc("measure curvature along the perturbation's unit vector")] = True
