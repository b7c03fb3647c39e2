"""Replays of champions: films of what they and their mutants do, and pictures of populations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfsm.abilities import Film, SupportsAnyModel, SupportsBehaviorMap, SupportsFilm
from tfsm.analysis.robustness import MutantEvaluator, build_operator
from tfsm.errors import TfsmError
from tfsm.interfaces import Tensor
from tfsm.kernels.random import root_seed
from tfsm.models.network import build_network
from tfsm.plugins import Plugins
from tfsm.plugins.registry import build_part
from tfsm.render.video import SideBySide
from tfsm.runs.result import open_run


@dataclass(frozen=True)
class MutantScores:
    """The scores of a champion's mutants."""

    mutation: str
    intensity: float
    fitness: np.ndarray
    solved: np.ndarray
    champion_fitness: float


@dataclass(frozen=True)
class ChampionReplay:
    """A film of a run's champion, and the scores of its mutants by operator."""

    run: int
    film: Film
    mutants: tuple[MutantScores, ...]


def replay_champion(
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
    """Film a champion, alone or with mutants.

    Args:
        plugins: the registered parts.
        directory: a run directory.
        run: the number of the run; None for the best run.
        mutants: the number of mutants per operator.
        mutations: the operators that make the mutants; the run's own by default. Several are shown side by side.
        intensity: the intensity of the operators; by default, that of the settings for each.
        seed: the random seed of the mutants.
        config: the user's settings file.
        trust: whether to load the champion even if its file could run code.
    """
    finished = open_run(directory, trust=trust)
    number = finished.best() if run is None else finished.check(run)
    domain = build_part(plugins.domains[finished.settings.domain], finished.settings.domain_options)
    if not isinstance(domain, SupportsFilm):
        raise TfsmError(f"the domain {finished.settings.domain!r} does not support films")
    names = mutations or (finished.settings.mutation,)
    operators = [build_operator(plugins, finished.settings, name, intensity, config) for name in names]
    model = finished.champion(number)
    if isinstance(domain, SupportsAnyModel):
        domain = domain.for_model(model)
    network = build_network(model, finished.settings.mutated_layers)
    champion = tf.constant(network.genome[None], network.dtype)
    evaluator = MutantEvaluator(domain, network, jit=finished.jit)
    films, scores = [], []
    for settings, mutation in operators if mutants else ():
        parents, experience = evaluator.gather_experience(champion[0], mutants)
        children = evaluator.mutate(mutation, settings, parents, experience, root_seed(seed))
        genomes = tf.concat([champion, children[:mutants]], axis=0)
        evaluation = evaluator.evaluate(genomes)
        films.append((domain.film(network, genomes, _zero_seeds(genomes)), settings.mutation))
        fitness, solved = evaluation.fitness.numpy(), evaluation.solved.numpy()
        scores.append(MutantScores(settings.mutation, settings.strength, fitness[1:], solved[1:], float(fitness[0])))
    if not films:
        films.append((domain.film(network, champion, _zero_seeds(champion)), ""))
    film = films[0][0] if len(films) == 1 else SideBySide(films)
    return ChampionReplay(number, film, tuple(scores))


def draw_populations(plugins: Plugins, directory: Path, *, run: int | None = None) -> np.ndarray:
    """Draw a run's populations over the course of evolution, as an array `[height, width, 3]` of bytes."""
    finished = open_run(directory)
    domain = build_part(plugins.domains[finished.settings.domain], finished.settings.domain_options)
    if not isinstance(domain, SupportsBehaviorMap):
        raise TfsmError(f"the domain {finished.settings.domain!r} does not support pictures of populations")
    return domain.picture(*finished.behavior(finished.best() if run is None else run))


def _zero_seeds(genomes: Tensor) -> Tensor:
    return tf.zeros([genomes.shape[0], 2], tf.int32)
