"""Settings, resolved: what a run uses, and where each value came from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

Adapt: TypeAlias = Literal["none", "self", "divergence"]
Stop: TypeAlias = Literal["solved", "budget"]
Failures: TypeAlias = Literal["stop", "broken"]
Init: TypeAlias = Literal["xavier-normal", "xavier-uniform", "xavier-biased", "normal", "uniform", "model"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that a run depends on, complete: options that nobody gave have their defaults."""

    domain: str
    mutation: str
    selection: str
    intensity: float
    runs: int
    seed: int
    evaluations: int
    population: int
    init: Init
    init_scale: float | None
    log_every: int
    stop: Stop = "solved"
    adapt: Adapt = "none"
    adapt_rate: float = 0.2
    target_divergence: float | None = None
    model: str | None = None
    trust_model: bool = False
    mutated_layers: tuple[str, ...] = ()
    checkpoint_every: str = "60s"
    evaluation_timeout: float | None = None
    failures: Failures = "stop"
    observers: tuple[str, ...] = ()
    domain_options: dict[str, Any] = field(default_factory=dict)
    mutation_options: dict[str, Any] = field(default_factory=dict)
    selection_options: dict[str, Any] = field(default_factory=dict)
    observer_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By observer."""
    engine: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        from pydantic_core import to_jsonable_python

        plain: dict[str, Any] = to_jsonable_python(asdict(self), inf_nan_mode="strings", fallback=str)
        return plain


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """Settings, and where each came from."""

    settings: Settings
    sources: dict[str, str]
    """By dotted path, such as `population` or `mutation_options.experiences`, in words."""
