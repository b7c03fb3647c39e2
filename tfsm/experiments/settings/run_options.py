"""The settings that every run has, whatever its domain, operator and selection scheme."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Final

from annotated_types import Ge, Gt, Lt
from typing_extensions import Doc

from tfsm.experiments.settings.model import Adapt, Failures, Init, Stop


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
