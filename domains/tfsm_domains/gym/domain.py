"""Environments of Gymnasium, as a domain in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, ClassVar, Final

import keras
import numpy as np

from tfsm.errors import TfsmError
from tfsm.interfaces import Evaluation, Film, Nest, Tensor
from tfsm.models.network import Network
from tfsm.rollouts import convolution_layers, hidden_layers, output_layer, policy_network
from tfsm_domains.gym import GymOptions
from tfsm_domains.gym.rollout import EpisodeRunner
from tfsm_domains.gym.spaces import ActionDecoder, to_inputs

RECURRENT_LAYERS: Final[dict[str, Any]] = {
    "simple-rnn": keras.layers.SimpleRNN,
    "gru": keras.layers.GRU,
    "lstm": keras.layers.LSTM,
}


def network_for(template: Mapping[str, np.ndarray], decoder: ActionDecoder, options: GymOptions) -> keras.Model:
    """Return a small network, built.

    Args:
        template: what is seen, by the inputs' names.
        decoder: what is asked.
        options: how large it shall be, and whether it shall remember.
    """
    if options.recurrent != "none":
        return _recurrent_network(template, decoder, options)
    if len(template) > 1:
        return _multi_input_network(template, decoder, options)
    (seen,) = template.values()
    return policy_network(
        seen.shape, decoder.outputs, layers=options.layers, units=options.units, activation=decoder.activation
    )


def _multi_input_network(
    template: Mapping[str, np.ndarray], decoder: ActionDecoder, options: GymOptions
) -> keras.Model:
    inputs = {name: keras.Input(seen.shape, name=name) for name, seen in template.items()}
    parts = []
    for name, x in inputs.items():
        for layer in convolution_layers(template[name].shape, f"{name}_") if template[name].ndim > 1 else ():
            x = layer(x)
        parts.append(x)
    x = keras.layers.Concatenate(name="together")(parts)
    for layer in [*hidden_layers(options.layers, options.units), output_layer(decoder.outputs, decoder.activation)]:
        x = layer(x)
    return keras.Model(inputs, x, name="player")


def _recurrent_network(template: Mapping[str, np.ndarray], decoder: ActionDecoder, options: GymOptions) -> keras.Model:
    if len(template) > 1:
        raise TfsmError(
            f"recurrent={options.recurrent}: a network that remembers takes one input, and {options.env!r} has "
            f"{len(template)}: {', '.join(template)}"
        )
    (seen,) = template.values()
    front = []
    if seen.ndim > 1:
        picture = keras.Sequential([keras.Input(seen.shape), *convolution_layers(seen.shape)], name="eye")
        front.append(keras.layers.TimeDistributed(picture, name="each_time"))
    memory = RECURRENT_LAYERS[options.recurrent](options.units, return_sequences=True, name="memory")
    return keras.Sequential(
        [
            keras.Input((options.remembered, *seen.shape)),
            *front,
            *hidden_layers(options.layers - 1, options.units),
            memory,
            output_layer(decoder.outputs, decoder.activation),
        ],
        name="player",
    )


CONFIRM_BATCH: Final = 20
"""Episodes that are played side by side to confirm a solution."""


@dataclass(frozen=True, kw_only=True)
class Gym(GymOptions):
    """Act in an environment; fitness is the return, solved is as much of it as the environment asks for."""

    compiled: ClassVar[bool] = False

    @cached_property
    def runner(self) -> EpisodeRunner:
        """The environment, found when it is first needed: a domain can be listed and built without Gymnasium."""
        return EpisodeRunner(self._options())  # which must not hold the domain, whose end it is to notice

    def network(self) -> keras.Model:
        """Return a small network for what is seen and what can be done."""
        return network_for(self.runner.encoder.template, self.runner.decoder, self)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Let genomes `[B, P]` act; behavior is the mean return, the mean length and the share that terminated."""
        seeds = self._seeds(np.asarray(seed), 0, self.episodes)
        played, kept = self.runner.play(network, genomes, seeds)
        fitness = self._aggregate(played.total)
        solved = self._reached(fitness)
        for b in np.flatnonzero(solved) if self.confirm else ():
            solved[b] = self._confirmed(network, genomes[b : b + 1], np.asarray(seed)[b : b + 1], played.total[b])
        parts = np.nan_to_num(played.total), played.steps, played.terminated
        behavior = np.stack([part.mean(axis=1) for part in parts], axis=1).astype(np.float32)
        return Evaluation(fitness.astype(np.float32), solved, behavior, kept[0] if len(kept) == 1 else kept)

    def observe(self, experience: Nest) -> Nest:
        """Return the inputs that were kept: `[B, I, ...]`, or `[B, 1, T, ...]` for a network that takes sequences."""
        return to_inputs(experience)

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film the first episode of the first genome; what the others do is not shown."""
        (episode,) = self._seeds(np.asarray(seed)[:1], 0, 1)[0]
        return self.runner.film(network, np.asarray(genomes)[:1], int(episode))

    def __reduce__(self) -> Any:
        """Be pickled by the options: environments and what is compiled cannot be."""
        return partial(type(self), **vars(self._options())), ()

    def _options(self) -> GymOptions:
        return GymOptions(**{option.name: getattr(self, option.name) for option in fields(GymOptions)})

    def _seeds(self, seed: np.ndarray, first: int, count: int) -> np.ndarray:
        """Return seeds `[B, count]` of episodes, from the `first` on, by evaluations' seeds `[B, 2]`."""
        words = np.ascontiguousarray(seed, np.int32).view(np.uint32)
        if self.seeds == "same":
            words = np.zeros_like(words)
        # Below 2**31: some simulators take no larger ones.
        return np.array(
            [[_episode_seed([*own, number]) for number in range(first, first + count)] for own in words.tolist()]
        )

    def _confirmed(self, network: Network, genome: Tensor, seed: np.ndarray, total: np.ndarray) -> bool:
        """Say whether a genome `[1, P]` with returns `[E]` stays at the threshold, whatever more episodes bring."""
        # In parts: most who were only lucky are found out by the first, and a hundred episodes take long.
        for first in range(0, self.confirm, CONFIRM_BATCH):
            more = self._seeds(seed, self.episodes + first, min(CONFIRM_BATCH, self.confirm - first))
            total = np.concatenate([total, self.runner.returns(network, genome, more)[0]])
            if not self._reached(self._aggregate(total)):
                return False
        return True

    def _aggregate(self, total: np.ndarray) -> np.ndarray:
        """Return one number for the episodes along the last axis; NaN where one of them is."""
        how: dict[str, Callable[..., Any]] = {"mean": np.mean, "median": np.median, "min": np.min}
        return np.asarray(how[self.aggregate](total, axis=-1))

    def _reached(self, fitness: np.ndarray) -> np.ndarray:
        threshold = self.runner.threshold
        return np.asarray(fitness >= (np.inf if threshold is None else threshold))


def _episode_seed(words: list[int]) -> int:
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)
