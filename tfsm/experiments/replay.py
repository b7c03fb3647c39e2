"""Looking at champions: what they do, and what their mutants do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfsm.contracts import Film, Filmed, Mapped, Mutation, Tensor
from tfsm.errors import TfsmError
from tfsm.evolution.evaluating import Evaluator
from tfsm.evolution.mapping import mutated
from tfsm.experiments.film import SideBySide
from tfsm.experiments.parts import build_part
from tfsm.experiments.past import Past, open_run
from tfsm.experiments.settings import Settings, resolve
from tfsm.kernels.noise import fold, root_seed
from tfsm.models.network import Network
from tfsm.plugins import Plugins


@dataclass(frozen=True)
class Mutants:
    """How mutants of a champion do."""

    mutation: str
    intensity: float
    fitness: np.ndarray
    solved: np.ndarray
    champion_fitness: float


@dataclass(frozen=True)
class Replay:
    """What there is to see of a run."""

    run: int
    film: Film
    mutants: tuple[Mutants, ...]


def replay(
    plugins: Plugins,
    directory: Path,
    *,
    run: int | None = None,
    mutants: int = 0,
    mutations: Sequence[str] = (),
    intensity: float | None = None,
    seed: int = 0,
    config: Path | None = None,
) -> Replay:
    """Film a champion, alone or with mutants of it.

    Args:
        plugins: where the parts come from.
        directory: a run directory.
        run: which run; the best one if None.
        mutants: how many mutants to make.
        mutations: by which operators; the run's own if none is named. Several are shown side by side.
        intensity: the operators' intensity, if not the one that the settings have for each.
        seed: decides the mutants.
        config: the user's settings file.
    """
    past = open_run(directory)
    number = past.best() if run is None else past.check(run)
    domain = build_part(plugins.domains[past.settings.domain], past.settings.domain_options)
    if not isinstance(domain, Filmed):
        raise TfsmError(f"the domain {past.settings.domain!r} has nothing to look at: it draws no film")
    operators = [_operator(plugins, past, name, intensity, config) for name in mutations or (past.settings.mutation,)]
    network = Network(past.champion(number))
    champion = tf.constant(network.genome[None], network.dtype)
    evaluate = Evaluator(domain, network, jit=past.jit)
    evaluate.template(champion, tf.zeros([1, 2], tf.int32))
    films, tables = [], []
    for settings, mutation in operators if mutants else ():
        genomes = tf.concat([champion, _mutants(evaluate, network, domain, mutation, settings, mutants, seed)], axis=0)
        found = evaluate(*_lanes(genomes))
        films.append((domain.film(network, *_lanes(genomes)[:2]), settings.mutation))
        fitness, solved = found.fitness.numpy(), found.solved.numpy()
        tables.append(Mutants(settings.mutation, settings.intensity, fitness[1:], solved[1:], float(fitness[0])))
    if not films:
        films.append((domain.film(network, *_lanes(champion)[:2]), ""))
    film = films[0][0] if len(films) == 1 else SideBySide(films)
    return Replay(number, film, tuple(tables))


def populations(plugins: Plugins, directory: Path, *, run: int | None = None) -> np.ndarray:
    """Draw what a run's populations did as evolution went on: `[height, width, 3]`, bytes."""
    past = open_run(directory)
    domain = build_part(plugins.domains[past.settings.domain], past.settings.domain_options)
    if not isinstance(domain, Mapped):
        raise TfsmError(f"the domain {past.settings.domain!r} cannot draw what populations do")
    return domain.picture(*past.behavior(past.best() if run is None else run))


def _operator(
    plugins: Plugins, past: Past, name: str, intensity: float | None, config: Path | None
) -> tuple[Settings, Mutation]:
    """Return an operator with the settings that it has for this domain; those of the run where it is the run's own."""
    settings = past.settings
    if name != settings.mutation or intensity is not None:
        overrides = {"intensity": intensity}
        settings = resolve(plugins, domain=settings.domain, mutation=name, overrides=overrides, config=config).settings
    return settings, build_part(plugins.mutations[name], settings.mutation_options)


def _mutants(
    evaluate: Evaluator,
    network: Network,
    domain: Filmed,
    mutation: Mutation,
    settings: Settings,
    count: int,
    seed: int,
) -> Tensor:
    parents = tf.repeat(tf.constant(network.genome[None], network.dtype), max(2, count), axis=0)
    seen = evaluate(*_lanes(parents)).experience

    def make(own: Tensor, experience: Tensor, seeds: Tensor) -> Tensor:
        strength = tf.constant(settings.intensity, network.dtype)
        return mutated(mutation, network, own, domain.observe(experience), strength, seeds).genome

    seeds = fold(root_seed(seed), 0, tf.range(parents.shape[0]))
    return tf.function(make)(parents, seen, seeds)[:count]


def _lanes(genomes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    count = genomes.shape[0]
    return genomes, tf.zeros([count, 2], tf.int32), tf.ones([count], tf.bool)
