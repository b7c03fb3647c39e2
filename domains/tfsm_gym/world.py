"""An environment, with as many copies of it as were ever needed at once."""

from __future__ import annotations

import weakref
from threading import RLock
from typing import Any

import numpy as np

from tfsm.contracts import Tensor
from tfsm.models.network import Network
from tfsm.rollouts.asking import Asker
from tfsm.rollouts.film import PictureFilm
from tfsm.rollouts.unseen import unseen
from tfsm_gym.acting import Actor, actor_for
from tfsm_gym.environments import Environments, Here, failed
from tfsm_gym.filming import Camera
from tfsm_gym.inputs import order, shown
from tfsm_gym.loading import Recipe, make, parsed, quiet, registered
from tfsm_gym.normalizing import by_bounds, by_samples
from tfsm_gym.observing import Reader
from tfsm_gym.options import GymOptions
from tfsm_gym.remembering import Beginning, Moments, Recall
from tfsm_gym.rollout import Played, play
from tfsm_gym.workers import Elsewhere


class World:
    """Where episodes are played; it closes its environments when it goes away.

    Args:
        options: which environment, and how.
    """

    def __init__(self, options: GymOptions) -> None:
        self._options = options
        self._recipe = Recipe(options.env, parsed(options.env_options), options.steps)
        env = make(self._recipe)
        try:
            spec = registered(env)
            self.reader = Reader(options.env, env.observation_space)
            self.actor: Actor = actor_for(options.env, env.action_space)
            self._normalize(env)
        finally:
            env.close()
        self.threshold = options.threshold
        """The fitness that is solved; None: nothing is."""
        if self.threshold is None and spec is not None:
            self.threshold = spec.reward_threshold
        self._environments = _environments(options, self._recipe._replace(spec=spec))
        weakref.finalize(self, self._environments.close)
        self._asker = Asker(shown)
        self._one_at_a_time = RLock()

    def play(self, network: Network, genomes: Tensor, seeds: np.ndarray) -> tuple[Played, tuple[np.ndarray, ...]]:
        """Let genomes `[B, P]` play episodes with seeds `[B, E]`.

        Returns:
            What came of it, and what is remembered, `[B, ...]` for each of the network's inputs.
        """
        recall = self._recall(network, len(genomes))
        played = self._play(self._environments, network, genomes, seeds, recall)
        kept = recall.all()
        return played, tuple(kept[i] for i in self._order(network))

    def more(self, network: Network, genomes: Tensor, seeds: np.ndarray) -> np.ndarray:
        """Return the sums of rewards `[B, E]` of genomes `[B, P]` in episodes with seeds `[B, E]`; nothing is kept."""
        return self._play(self._environments, network, genomes, seeds).total

    def film(self, network: Network, genome: Tensor, seed: int) -> PictureFilm:
        """Film one episode of a genome `[1, P]`."""
        with unseen():
            camera = Camera(self._recipe)
            stage = Here(self._options.env, lambda: camera)
            try:
                self._play(stage, network, genome, np.array([[seed]]))
            finally:
                stage.close()
        return camera.film

    def _play(
        self,
        environments: Environments,
        network: Network,
        genomes: Tensor,
        seeds: np.ndarray,
        recall: Recall | None = None,
    ) -> Played:
        blank, places = list(self.reader.blank.values()), self._order(network)
        ask = self._asker.decide(network, genomes, [blank[i] for i in places], seeds.shape[1])
        with self._one_at_a_time, quiet():
            return play(
                environments,
                self.reader,
                self.actor,
                lambda seen: ask([seen[i] for i in places]),
                seeds,
                hold=self._options.hold,
                watching=recall,
            )

    def _order(self, network: Network) -> list[int]:
        return order(network.model, list(self.reader.blank), self._options.env)

    def _recall(self, network: Network, genomes: int) -> Recall:
        blank, count = list(self.reader.blank.values()), self._options.remembered
        if not self._asker.over_time(network, [blank[i] for i in self._order(network)]):
            return Moments(genomes, count)
        # Sequences of the length that the network takes, if it takes no other.
        return Beginning(network.model.inputs[0].shape[1] or count)

    def _normalize(self, env: Any) -> None:
        if self._options.normalize == "bounds":
            by_bounds(self.reader)
        elif self._options.normalize == "sampled":
            try:
                with quiet():
                    by_samples(self.reader, env)
            except Exception as error:
                raise failed(self._options.env, "step", error) from error


def _environments(options: GymOptions, recipe: Recipe) -> Environments:
    if options.vector == "async":
        return Elsewhere(recipe)
    return Here(options.env, lambda: make(recipe, told=False))
