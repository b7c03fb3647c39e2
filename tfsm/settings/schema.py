"""RunOptions, EngineOptions, Settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, Final, get_type_hints

from annotated_types import Ge, Gt, Lt
from typing_extensions import Doc

from tfsm.errors import TfsmError
from tfsm.interfaces import Adapt, Compile, Failures, Init, Stop
from tfsm.plugins.options import expected, validate


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Options of the engine: the keys of `[engine]`."""

    compile: Annotated[Compile, Doc("how the loop is compiled; auto: by the network's layers")] = "auto"
    memory: Annotated[float, Gt(0), Doc("GiB that the engine may plan with")] = 4.0
    width: Annotated[int | None, Ge(1), Doc("runs evolved in lock step; none: as many as memory allows")] = None
    reuse: Annotated[bool, Doc("keep sensitivities for a parent's next child, where memory allows")] = True


ENGINE_KEYS: Final = tuple(field.name for field in fields(EngineOptions))


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
class ResolvedSettings:
    """Settings, and where each came from."""

    settings: Settings
    sources: dict[str, str]
    """By dotted path, such as `population` or `mutation_options.experiences`, in words."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What `[run]`, every `[domains.NAME]` and the command line can say."""

    selection: Annotated[str, Doc("name of the selection scheme")] = "tournament"
    intensity: Annotated[float, Ge(0), Doc("mutation intensity; in a file also a table of them by operator")]
    runs: Annotated[int, Ge(1), Doc("independent runs, evolved side by side")] = 1
    seed: Annotated[int, Ge(0), Lt(2**63), Doc("seed of all randomness")] = 0
    evaluations: Annotated[int, Ge(1), Doc("evaluations in a run, the initial population's included")] = 100_000
    population: Annotated[int, Ge(1), Doc("individuals")] = 250
    init: Annotated[Init, Doc("how initial weights are drawn; model: everybody has the model's own")] = "xavier-normal"
    init_scale: Annotated[float | None, Gt(0), Doc("scale of the initial weights; none: the scheme's own")] = None
    model: Annotated[
        str | None, Doc("a network instead of the domain's own: a .keras file, or package.module:function")
    ] = None
    trust_model: Annotated[bool, Doc("load the model's file whatever is in it: code in it is run")] = False
    mutated_layers: Annotated[
        tuple[str, ...], Doc("the layers to mutate, each NAME or NAME=SHARE of the intensity; none named: all of them")
    ] = ()
    stop: Annotated[
        Stop, Doc("when a run ends; solved: with its first solution; budget: after all evaluations, solved or not")
    ] = "solved"
    adapt: Annotated[
        Adapt, Doc("how the intensity adapts; self: everybody carries their own; divergence: to a wanted divergence")
    ] = "none"
    adapt_rate: Annotated[float, Gt(0), Doc("how fast it does")] = 0.2
    target_divergence: Annotated[float | None, Gt(0), Doc("the wanted divergence, for adapt = divergence")] = None
    log_every: Annotated[int, Ge(1), Doc("evaluations from one line of the log to the next")] = 1_000
    checkpoint_every: Annotated[
        str, Doc("how often to write a checkpoint: 30s, 5m, 1h, a number of evaluations, or never")
    ] = "60s"
    evaluation_timeout: Annotated[
        float | None, Gt(0), Doc("the most seconds of one evaluation, by a domain that is plain Python; none: no limit")
    ] = None
    failures: Annotated[
        Failures,
        Doc("where an evaluation fails; stop: the run ends, all kept; broken: it goes on, that one has no children"),
    ] = "stop"
    observers: Annotated[tuple[str, ...], Doc("names of observers that are told how it goes")] = ()


RUN_KEYS: Final = tuple(field.name for field in fields(RunOptions))


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The options of a part that registered none."""


def option_names(options: type | None) -> tuple[str, ...]:
    """Return the names of a part's options."""
    return tuple(field.name for field in fields(options) if field.init) if options is not None else ()


def find_problems(options: type, values: Mapping[str, Any], where: str) -> Iterator[str]:
    """Say what is wrong with a table's values, each against the field of its name.

    Text may still stand for none, which TOML has no word for.
    """
    try:
        converted = validate(options, values, where=where)
    except TfsmError as error:
        if len(values) == 1:
            yield str(error)
            return
        for key, value in values.items():
            yield from find_problems(options, {key: value}, where)
        return
    for key, value in values.items():
        if isinstance(value, str) and isinstance(converted[key], bool | int | float | list | tuple):
            wanted = expected(get_type_hints(options, include_extras=True)[key])
            yield f'{where} {key}="{value}": expected {wanted}, without quotes'


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings by dotted path."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten_settings(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
