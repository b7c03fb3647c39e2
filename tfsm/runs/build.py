"""Builds an engine from settings, here or in a worker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from tfsm.abilities import StatefulSelection, SupportsAnyModel
from tfsm.errors import TfsmError
from tfsm.evolution.batches import Batches, plan_batches
from tfsm.evolution.compile_plan import Plan, check_memory, choose_compiler, make_plan
from tfsm.evolution.engine import Engine
from tfsm.evolution.evaluation import Evaluator, FailurePolicy
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.variation import Adaptation, Variation
from tfsm.interfaces import Domain, Mutation, Selection
from tfsm.kernels.random import fold_in, root_seed
from tfsm.models.genome import check_model
from tfsm.models.loading import check_compatible, check_differentiable, is_known_differentiable, load_or_build_model
from tfsm.models.network import Network, build_network
from tfsm.plugins import Plugins, load_plugins
from tfsm.plugins.options import parse_divergence
from tfsm.plugins.registry import Entry, Kind, build_part
from tfsm.settings import ResolvedSettings, Settings, resolve
from tfsm.utils.files import read_available_memory

if TYPE_CHECKING:
    from tfsm.evolution.divergence import DivergenceTarget


@dataclass(frozen=True)
class PreparedRun:
    """All that an engine is made of, before anything is compiled or allocated."""

    settings: Settings
    evaluator: Evaluator
    """The network and the domain."""
    mutation: Mutation
    selection: Selection | StatefulSelection
    initializer: Initializer
    plan: Plan

    @property
    def network(self) -> Network:
        """The network."""
        return self.evaluator.network

    @property
    def domain(self) -> Domain:
        """The domain."""
        return self.evaluator.domain

    @property
    def batches(self) -> Batches:
        """The children that runs ask for at once."""
        settings = self.settings
        return plan_batches(
            self.selection,
            settings.population,
            settings.offspring,
            lanes=self.plan.width,
            adapts_to_divergence=settings.adapt == "divergence",
        )

    def variation(self) -> Variation:
        """Return what makes children, without populations."""
        settings = self.settings
        return Variation(
            self.evaluator,
            self.mutation,
            intensity=settings.strength,
            initializer=self.initializer,
            seed=settings.seed,
            plan=self.plan,
            adaptation=Adaptation(settings.adapt, settings.adapt_rate, settings.target_divergence or 0.0),
            target=divergence_target(settings),
        )

    def engine(self) -> Engine:
        """Return the engine; raise a `TfsmError` if it does not fit the memory."""
        network = self.network
        check_memory(
            self.plan,
            read_available_memory(),
            population=self.settings.population,
            weights=network.size,
            weight_bytes=network.dtype.size,
            experience_bytes=self.evaluator.experience_bytes,
        )
        return Engine(
            self.variation(),
            self.selection,
            population=self.settings.population,
            stop_when_solved=self.settings.stop == "solved",
            offspring=self.settings.offspring,
        )


def divergence_target(settings: Settings) -> DivergenceTarget | None:
    """Return how children are rescaled; None if the settings have an intensity."""
    if settings.divergence is None:
        return None
    from tfsm.evolution.divergence import DivergenceTarget

    return DivergenceTarget(relative=parse_divergence(settings.divergence).relative)


def resolve_parts(
    plugins: Plugins,
    domain: str | Domain,
    mutation: str | Mutation,
    selection: str | Selection | StatefulSelection | None,
    overrides: Mapping[str, object],
    options: Mapping[str, object],
    config: str | Path | None = None,
    profile: str | None = None,
) -> tuple[Plugins, ResolvedSettings]:
    """Resolve the settings of a Python program, whose parts may be names or objects; these are registered.

    Args:
        plugins: the registered parts.
        domain: the domain.
        mutation: the operator.
        selection: the scheme; None: as the settings say.
        overrides: settings by name; None where the program gave none.
        options: options of the parts and the engine, like `--set`.
        config: a `tfsm.toml` to use instead of the nearest one.
        profile: named settings for the domain.
    """
    names: dict[Kind, Any] = {}
    given: tuple[tuple[Kind, Any], ...] = (("domain", domain), ("mutation", mutation), ("selection", selection))
    for kind, part in given:
        names[kind] = part
        if part is not None and not isinstance(part, str):
            plugins, names[kind] = plugins.with_part(kind, part)
    return plugins, resolve(
        plugins,
        domain=names["domain"],
        mutation=names["mutation"],
        overrides={**overrides, "selection": names["selection"]},
        sets=[f"{key}={'none' if value is None else value}" for key, value in options.items()],
        config=Path(config) if config is not None else None,
        profile=profile,
    )


def settings_for_children(settings: Settings) -> Settings:
    """Return settings for children that are made by workers.

    No sensitivities are kept. A generation is not one batch, which would keep one worker busy and all others idle.
    """
    return replace(settings, engine={**settings.engine, "reuse": False}, offspring=settings.offspring or 1)


def prepare(plugins: Plugins, settings: Settings, *, model: keras.Model | None = None) -> PreparedRun:
    """Build the parts, and check that they fit together; a given model replaces the domain's or the settings' one."""
    domain: Domain = build_part(plugins.domains[settings.domain], settings.domain_options)
    mutation: Mutation = build_part(plugins.mutations[settings.mutation], settings.mutation_options)
    selection: Selection | StatefulSelection = build_part(
        plugins.selections[settings.selection], settings.selection_options
    )
    initializer = Initializer(settings.init, settings.init_scale)
    domain, model = _choose_model(settings, domain, model)
    network = _build_network(settings, model, initializer)
    jit, _ = choose_compiler(network, settings.engine.get("compile", "auto"))
    policy = FailurePolicy(settings.evaluation_timeout, settings.failures)
    evaluator = Evaluator(domain, network, jit=jit, failure_policy=policy)
    return plan_run(settings, evaluator, mutation, selection, initializer)


def plan_run(
    settings: Settings,
    evaluator: Evaluator,
    mutation: Mutation,
    selection: Selection | StatefulSelection,
    initializer: Initializer,
) -> PreparedRun:
    """Check that an operator fits the network and what it sees, and decide how to compile."""
    network, domain = evaluator.network, evaluator.domain
    experience_bytes = evaluator.experience_bytes
    uses_experience = getattr(mutation, "uses_experience", True) or settings.divergence is not None
    if uses_experience and getattr(domain, "records_inputs", False) and not experience_bytes:
        raise TfsmError(
            f"the fitness function never calls the model, so there is no experience on which {settings.mutation!r} "
            "could measure anything: call the model in the function, or use the mutation 'control' with an intensity"
        )
    # To try it takes a roll-out, which may compile for longer than all the rest.
    if getattr(mutation, "needs_gradient", False) and evaluator.is_compiled and not is_known_differentiable(network):
        genome = initializer.genomes(network, fold_in(root_seed(settings.seed), 0, 0)[None])
        check_differentiable(network, genome, domain.observe(evaluator.sample_experience(genome)))
    plan = make_plan(
        network,
        runs=settings.runs,
        population=settings.population,
        experience_bytes=experience_bytes,
        offspring=settings.offspring or 1,
        **{key: value for key, value in settings.engine.items() if key != "threads"},
    )
    return PreparedRun(settings, evaluator, mutation, selection, initializer, plan)


def build_engine(plugins: Plugins, settings: Settings, *, model: keras.Model | None = None) -> Engine:
    """Return an engine for these settings."""
    return prepare(plugins, settings, model=model).engine()


def _choose_model(settings: Settings, domain: Domain, model: keras.Model | None) -> tuple[Domain, keras.Model]:
    """Return the model to evolve, and the domain, adapted to it if it adapts."""
    adapts = isinstance(domain, SupportsAnyModel)
    default, chosen = None if adapts else domain.network(), model
    if chosen is None and settings.model is not None:
        chosen = load_or_build_model(settings.model, trust=settings.trust_model)
    if chosen is not None:
        check_model(chosen)
    if isinstance(domain, SupportsAnyModel):
        chosen = domain.network() if chosen is None else chosen
        return domain.for_model(chosen), chosen
    if chosen is None:
        return domain, default
    check_compatible(chosen, default, settings.domain)
    return domain, chosen


def _build_network(settings: Settings, model: keras.Model, initializer: Initializer) -> Network:
    if not settings.mutated_layers:
        return Network(model)
    if settings.init != "model":
        # Layers that are not mutated have to be drawn, too: by the experiment's seed, and the same for all runs.
        whole = Network(model)
        model = whole.child(initializer.genomes(whole, fold_in(root_seed(settings.seed), -1, 0)[None])[0].numpy())
    return build_network(model, settings.mutated_layers)


def collect_notes(settings: Settings, plan: Plan, domain: Domain) -> list[str]:
    """Return notes for the user before a run."""
    notes = [*([plan.note] if plan.note else []), *getattr(domain, "notes", ())]
    if settings.evaluation_timeout is not None and getattr(domain, "compiled", True):
        notes.append("evaluation_timeout has no effect: the domain is compiled together with the loop")
    return notes


class EngineCache:
    """Builds engines; the last one is reused, already compiled, if only the intensity or the divergence differs."""

    def __init__(self) -> None:
        self._last: tuple[Settings, keras.Model | None, Engine] | None = None

    def engine(self, plugins: Plugins, settings: Settings, *, model: keras.Model | None = None) -> Engine:
        """Return an engine for these settings."""
        if self._last is not None:
            last_settings, last_model, engine = self._last
            other = replace(last_settings, intensity=settings.intensity, divergence=settings.divergence)
            same_target = divergence_target(last_settings) == divergence_target(settings)
            if last_model is model and same_target and other == settings:
                engine.set_intensity(settings.strength)
                return engine
            self._last = None  # frees its memory first
        engine = build_engine(plugins, settings, model=model)
        self._last = (settings, model, engine)
        return engine


@dataclass(frozen=True)
class RunRecipe:
    """What a worker needs to build the same engine: settings, and parts and a model that no setting describes."""

    settings: Settings
    entries: tuple[Entry, ...] = ()
    """Parts that are objects of the user's program."""
    model: keras.Model | None = None
    disabled: tuple[str, ...] = ()
    folder: str = field(default_factory=os.getcwd)
    """The folder that file and module names in the settings are relative to."""

    def plugins(self) -> Plugins:
        """Load the plugins, in a worker."""
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
        plugins = load_plugins(disabled=self.disabled)
        for entry in self.entries:
            plugins = plugins.with_entry(entry)
        return plugins

    def for_runs(self, count: int) -> RunRecipe:
        """Return the recipe for that many runs."""
        return replace(self, settings=replace(self.settings, runs=count))


def make_recipe(plugins: Plugins, settings: Settings, model: keras.Model | None = None) -> RunRecipe:
    """Return what a worker needs to build the engine that would be built here."""
    chosen = (
        plugins.domains[settings.domain],
        plugins.mutations[settings.mutation],
        plugins.selections[settings.selection],
    )
    disabled = tuple(info.name for info in plugins.infos if info.state == "disabled")
    return RunRecipe(settings, tuple(entry for entry in chosen if entry.instance is not None), model, disabled)
