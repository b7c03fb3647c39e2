"""The settings of a run, as typed dataclasses: what files and flags may contain, and what a run finally uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Annotated, Any, Final

from annotated_types import Ge, Gt, Lt
from typing_extensions import Doc

from tfsm.errors import TfsmError
from tfsm.interfaces import Adapt, Compile, Failures, Init, Stop
from tfsm.plugins.options import parse_divergence
from tfsm.plugins.registry import Entry


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The keys of `[engine]`."""

    compile: Annotated[Compile, Doc("how the step is compiled; auto: depending on the network's layers")] = "auto"
    memory: Annotated[float, Gt(0), Doc("memory budget of the engine in GiB")] = 4.0
    width: Annotated[int | None, Ge(1), Doc("runs evolved in lock step; none: as many as memory allows")] = None
    reuse: Annotated[bool, Doc("cache sensitivities for a parent's next child, if memory allows")] = True
    threads: Annotated[
        int | None, Ge(1), Doc("threads per operation; none: what the domain declares, or one per core")
    ] = None


ENGINE_KEYS: Final = tuple(field.name for field in fields(EngineOptions))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The complete settings of a run, defaults included."""

    domain: str
    mutation: str
    selection: str
    intensity: float | None = None
    divergence: float | str | None = None
    runs: int
    seed: int
    evaluations: int
    population: int
    init: Init
    init_scale: float | None
    log_every: int
    offspring: int | None = None
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
    """By observer name."""
    engine: dict[str, Any] = field(default_factory=dict)

    @property
    def strength(self) -> float:
        """How strongly to mutate: the intensity, or the number of the divergence."""
        if self.divergence is not None:
            return parse_divergence(self.divergence).value
        assert self.intensity is not None
        return self.intensity

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        from pydantic_core import to_jsonable_python

        plain: dict[str, Any] = to_jsonable_python(asdict(self), inf_nan_mode="strings", fallback=str)
        return plain

    def as_record(self) -> dict[str, Any]:
        """Return the settings as a run directory records them: without those of `ADDED_LATER` at their defaults."""
        settings = self.as_dict()
        return _leave_out(settings, "", added_later(settings))


@dataclass(frozen=True, kw_only=True)
class ResolvedSettings:
    """Settings, and the source of each."""

    settings: Settings
    sources: dict[str, str]
    """By dotted path, such as `population` or `mutation_options.experiences`."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The keys of `[run]` and `[domains.NAME]`, and the settings of the command line."""

    selection: Annotated[str, Doc("name of the selection scheme")] = "tournament"
    intensity: Annotated[
        float | None, Ge(0), Doc("mutation intensity; in a file also a table with one per operator")
    ] = None
    divergence: Annotated[
        float | str | None,
        Doc("how far outputs move, instead of an intensity: 0.01, or 1% of their variance; or a table"),
    ] = None
    runs: Annotated[int, Ge(1), Doc("independent runs, evolved in parallel")] = 1
    seed: Annotated[int, Ge(0), Lt(2**63), Doc("random seed")] = 0
    evaluations: Annotated[int, Ge(1), Doc("evaluations per run, including the initial population")] = 100_000
    population: Annotated[int, Ge(1), Doc("population size")] = 250
    offspring: Annotated[
        int | None,
        Ge(1),
        Doc("children that a run makes at once, from the same population; none: one, or a whole generation"),
    ] = None
    init: Annotated[Init, Doc("initialization of the weights; model: the model's own weights")] = "xavier-normal"
    init_scale: Annotated[float | None, Gt(0), Doc("scale of the initial weights; none: the default of init")] = None
    model: Annotated[
        str | None, Doc("network to use instead of the domain's: a .keras file, or package.module:function")
    ] = None
    trust_model: Annotated[bool, Doc("load a model file even if it contains code, which is then executed")] = False
    mutated_layers: Annotated[
        tuple[str, ...], Doc("layers to mutate, each NAME or NAME=SHARE of the intensity; empty: all layers")
    ] = ()
    stop: Annotated[Stop, Doc("when a run ends; solved: at the first solution; budget: after all evaluations")] = (
        "solved"
    )
    adapt: Annotated[
        Adapt,
        Doc("how the intensity adapts; self: each individual evolves its own; divergence: to target_divergence"),
    ] = "none"
    adapt_rate: Annotated[float, Gt(0), Doc("rate of the adaptation")] = 0.2
    target_divergence: Annotated[float | None, Gt(0), Doc("target of adapt = divergence")] = None
    log_every: Annotated[int, Ge(1), Doc("evaluations between log entries")] = 1_000
    checkpoint_every: Annotated[str, Doc("checkpoint interval: 30s, 5m, 1h, a number of evaluations, or never")] = "60s"
    evaluation_timeout: Annotated[
        float | None, Gt(0), Doc("time limit of one evaluation in seconds, for domains in plain Python; none: no limit")
    ] = None
    failures: Annotated[
        Failures,
        Doc(
            "when an evaluation fails; stop: end the run, results are saved; broken: continue, that child is discarded"
        ),
    ] = "stop"
    observers: Annotated[tuple[str, ...], Doc("observers to notify")] = ()


RUN_KEYS: Final = tuple(field.name for field in fields(RunOptions))

ADDED_LATER: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "divergence": None,
        "offspring": None,
        "engine.threads": None,
        "mutation_options.guard": "paper",
        "mutation_options.guard_share": 0.01,
        "mutation sm-g-abs": {"mutation_options.probes": None},
        "domain gym": {
            "domain_options.text": "drop",
            "domain_options.flatten": False,
            "domain_options.grayscale": False,
            "domain_options.resize": None,
            "domain_options.stack": 1,
            "domain_options.frame_skip": 1,
            "domain_options.sticky": None,
            "domain_options.clip_reward": None,
            "domain_options.normalize_samples": 2_000,
            "domain_options.policy": "default",
        },
    }
)
"""Settings that version 0.1 did not have, by dotted path, and the values at which it behaved as today.

Those that only one part did not have are in a table of their own, by the part's kind and name. At these values they are
not recorded. A run that does not use them has the same record, and the same identity in its checkpoints, as before they
existed.
"""


def require_strength(values: Mapping[str, Any], where: str) -> None:
    """Raise a `TfsmError` if recorded run settings have neither an intensity nor a divergence."""
    if values.get("intensity") is None and values.get("divergence") is None:
        raise TfsmError(f"{where} intensity=null: expected a number >= 0, or a divergence instead")


def added_later(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of `ADDED_LATER` that applies to settings as plain JSON values: values by dotted path."""
    values: dict[str, Any] = {}
    for key, value in ADDED_LATER.items():
        kind, _, name = key.partition(" ")
        if not name:
            values[key] = value
        elif settings.get(kind) == name:
            values |= value
    return values


def _leave_out(settings: Mapping[str, Any], prefix: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in settings.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            kept[key] = _leave_out(value, f"{path}.", defaults)
        elif path not in defaults or defaults[path] != value:
            kept[key] = value
    return kept


def choose_threads(settings: Settings, domain: Entry) -> int | None:
    """Return the number of threads per operation to start TensorFlow with; None: as many as it likes.

    A domain knows how small its own network is; another model may have any size.
    """
    chosen: int | None = settings.engine.get("threads")
    return domain.threads if chosen is None and settings.model is None else chosen


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings as a flat mapping by dotted path."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten_settings(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
