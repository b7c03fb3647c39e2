"""Looking at champions: what they do, and what their mutants do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfsm.analysis.robustness import MutantEvaluator, build_operator
from tfsm.errors import TfsmError
from tfsm.interfaces import Film, SupportsBehaviorMap, SupportsFilm, Tensor
from tfsm.kernels.random import root_seed
from tfsm.models.network import build_network
from tfsm.plugins import Plugins
from tfsm.plugins.registry import build_part
from tfsm.render.video import SideBySide
from tfsm.runs.finished_run import open_run


@dataclass(frozen=True)
class MutantScores:
    """How mutants of a champion do."""

    mutation: str
    intensity: float
    fitness: np.ndarray
    solved: np.ndarray
    champion_fitness: float


@dataclass(frozen=True)
class ChampionReplay:
    """What there is to see of a run."""

    run: int
    film: Film
    mutants: tuple[MutantScores, ...]


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
    trust: bool = False,
) -> ChampionReplay:
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
        trust: whether to load the champion whatever is in its file.
    """
    past = open_run(directory, trust=trust)
    number = past.best() if run is None else past.check(run)
    domain = build_part(plugins.domains[past.settings.domain], past.settings.domain_options)
    if not isinstance(domain, SupportsFilm):
        raise TfsmError(f"the domain {past.settings.domain!r} has nothing to look at: it draws no film")
    names = mutations or (past.settings.mutation,)
    operators = [build_operator(plugins, past.settings, name, intensity, config) for name in names]
    network = build_network(past.champion(number), past.settings.mutated_layers)
    champion = tf.constant(network.genome[None], network.dtype)
    tryout = MutantEvaluator(domain, network, jit=past.jit)
    films, tables = [], []
    for settings, mutation in operators if mutants else ():
        parents, seen = tryout.gather_experience(champion[0], mutants)
        made = tryout.mutate(mutation, settings.intensity, parents, seen, root_seed(seed))
        genomes = tf.concat([champion, made[:mutants]], axis=0)
        found = tryout.evaluate(genomes)
        films.append((domain.film(network, genomes, _no_seeds(genomes)), settings.mutation))
        fitness, solved = found.fitness.numpy(), found.solved.numpy()
        tables.append(MutantScores(settings.mutation, settings.intensity, fitness[1:], solved[1:], float(fitness[0])))
    if not films:
        films.append((domain.film(network, champion, _no_seeds(champion)), ""))
    film = films[0][0] if len(films) == 1 else SideBySide(films)
    return ChampionReplay(number, film, tuple(tables))


def draw_populations(plugins: Plugins, directory: Path, *, run: int | None = None) -> np.ndarray:
    """Draw what a run's populations did as evolution went on: `[height, width, 3]`, bytes."""
    past = open_run(directory)
    domain = build_part(plugins.domains[past.settings.domain], past.settings.domain_options)
    if not isinstance(domain, SupportsBehaviorMap):
        raise TfsmError(f"the domain {past.settings.domain!r} cannot draw what populations do")
    return domain.picture(*past.behavior(past.best() if run is None else run))


def _no_seeds(genomes: Tensor) -> Tensor:
    return tf.zeros([genomes.shape[0], 2], tf.int32)
