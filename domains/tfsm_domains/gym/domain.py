"""Gymnasium environments as a domain in plain Python, and their default networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, ClassVar, Final

import keras
import numpy as np

from tfsm.abilities import Film
from tfsm.errors import TfsmError
from tfsm.interfaces import Evaluation, Nest, Tensor
from tfsm.models.network import Network
from tfsm.render.video import WithTiles
from tfsm.rollouts import convolution_layers, hidden_layers, output_layer
from tfsm_domains.gym import GymOptions
from tfsm_domains.gym.rollout import EpisodeRunner, normalization_layer, set_statistics, to_inputs
from tfsm_domains.gym.spaces import ActionDecoder, ObservationEncoder, update_statistics

RECURRENT_LAYERS: Final[dict[str, Any]] = {
    "simple-rnn": keras.layers.SimpleRNN,
    "gru": keras.layers.GRU,
    "lstm": keras.layers.LSTM,
}


def network_for(encoder: ObservationEncoder, decoder: ActionDecoder, options: GymOptions) -> keras.Model:
    """Return a network for an environment, built.

    Args:
        encoder: turns observations into network inputs.
        decoder: reads the network's outputs.
        options: the kind and size of the network.
    """
    template = encoder.template
    recurrent = options.recurrent if options.policy != "lstm" else "lstm"
    if recurrent != "none" or options.policy == "nature-cnn":
        if len(template) > 1:
            kind = "policy=nature-cnn" if recurrent == "none" else f"recurrent={recurrent}"
            raise TfsmError(
                f"{kind}: such a network takes one input, but {options.env!r} has {len(template)}: "
                f"{', '.join(template)}; with --set flatten=yes they are one vector"
            )
        (seen,) = template.values()
        if options.policy == "nature-cnn":
            return _nature_network(seen.shape, decoder, options)
        return _recurrent_network(seen.shape, recurrent, encoder, decoder, options)
    if len(template) > 1:
        return _multi_input_network(encoder, decoder, options)
    (seen,) = template.values()
    front = _front_layers(seen.shape, "", encoder, options)
    return keras.Sequential([keras.Input(seen.shape), *front, *_last_layers(decoder, options)], name="player")


def _front_layers(
    shape: tuple[int, ...], name: str, encoder: ObservationEncoder, options: GymOptions
) -> list[keras.layers.Layer]:
    """Return the layers that turn one input into a vector."""
    if len(shape) == 1:
        return normalization_layer(encoder, options.normalize)
    if options.policy == "mlp":
        return [keras.layers.Flatten(name=f"{name}flat")]
    return convolution_layers(shape, name)


def _last_layers(decoder: ActionDecoder, options: GymOptions) -> list[keras.layers.Layer]:
    return [*hidden_layers(options.layers, options.units), output_layer(decoder.outputs, decoder.activation)]


def _multi_input_network(encoder: ObservationEncoder, decoder: ActionDecoder, options: GymOptions) -> keras.Model:
    inputs = {name: keras.Input(seen.shape, name=name) for name, seen in encoder.template.items()}
    parts = []
    for name, x in inputs.items():
        for layer in _front_layers(tuple(x.shape[1:]), f"{name}_", encoder, options):
            x = layer(x)
        parts.append(x)
    x = keras.layers.Concatenate(name="together")(parts)
    for layer in _last_layers(decoder, options):
        x = layer(x)
    return keras.Model(inputs, x, name="player")


def _recurrent_network(
    shape: tuple[int, ...], kind: str, encoder: ObservationEncoder, decoder: ActionDecoder, options: GymOptions
) -> keras.Model:
    front = normalization_layer(encoder, options.normalize) if len(shape) == 1 else []
    if len(shape) > 1:
        picture = keras.Sequential([keras.Input(shape), *convolution_layers(shape)], name="eye")
        front.append(keras.layers.TimeDistributed(picture, name="each_time"))
    return keras.Sequential(
        [
            keras.Input((options.remembered, *shape)),
            *front,
            *hidden_layers(options.layers - 1, options.units),
            RECURRENT_LAYERS[kind](options.units, return_sequences=True, name="memory"),
            output_layer(decoder.outputs, decoder.activation),
        ],
        name="player",
    )


MAX_TILES: Final = 12
"""How many more genomes a film shows."""

NATURE_SIDE: Final = 36
"""The smallest side of an image that the convolutions of the Nature network leave something of."""


def _nature_network(shape: tuple[int, ...], decoder: ActionDecoder, options: GymOptions) -> keras.Model:
    """Return the network of Mnih et al. (2015): three convolutions and 512 units, with ReLU."""
    if len(shape) != 3 or min(shape[:2]) < NATURE_SIDE:
        raise TfsmError(
            f"policy=nature-cnn: expected images of at least {NATURE_SIDE}x{NATURE_SIDE} pixels, but the observations "
            f"of {options.env!r} have the shape {shape}"
        )
    convolutions = [
        keras.layers.Conv2D(filters, size, stride, activation="relu", name=f"convolution_{i + 1}")
        for i, (filters, size, stride) in enumerate([(32, 8, 4), (64, 4, 2), (64, 3, 1)])
    ]
    dense = [keras.layers.Flatten(name="flat"), keras.layers.Dense(512, activation="relu", name="hidden")]
    last = output_layer(decoder.outputs, decoder.activation)
    return keras.Sequential([keras.Input(shape), *convolutions, *dense, last], name="player")


CONFIRM_BATCH: Final = 20
"""Episodes played side by side to confirm a solution."""


@dataclass(frozen=True, kw_only=True)
class Gym(GymOptions):
    """Act in an environment. Fitness is the return; solved means that it reaches the reward threshold."""

    compiled: ClassVar[bool] = False

    @cached_property
    def runner(self) -> EpisodeRunner:
        """The environments, made on first use, so that the domain can be listed and built without Gymnasium."""
        return EpisodeRunner(self._options())  # not the domain itself: the runner ends with it

    @property
    def notes(self) -> list[str]:
        """What the user should know before a run: what is not observed, and what the environment warns about."""
        return self.runner.notes

    def network(self) -> keras.Model:
        """Return a network that fits the observation and action spaces."""
        encoder = self.runner.encoder
        return set_statistics(network_for(encoder, self.runner.decoder, self), encoder)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Let genomes `[B, P]` act; behavior is the mean return, the mean length and the share that terminated."""
        seeds = self._seeds(np.asarray(seed), 0, self.episodes)
        results, experience = self.runner.play(network, genomes, seeds)
        fitness = self._aggregate(results.total)
        solved = self._is_solved(fitness)
        for b in np.flatnonzero(solved) if self.confirm else ():
            solved[b] = self._confirm(network, genomes[b : b + 1], np.asarray(seed)[b : b + 1], results.total[b])
        parts = np.nan_to_num(results.total), results.steps, results.terminated
        behavior = np.stack([part.mean(axis=1) for part in parts], axis=1).astype(np.float32)
        return Evaluation(
            fitness.astype(np.float32), solved, behavior, experience[0] if len(experience) == 1 else experience
        )

    def observe(self, experience: Nest) -> Nest:
        """Return the stored inputs: `[B, I, ...]`, or `[B, 1, T, ...]` for a network that takes sequences."""
        return to_inputs(experience)

    def update_statistics(self, statistics: np.ndarray, experience: Nest) -> np.ndarray:
        """Return the scale and offset of the normalization of children, `[B, 2 * D]`."""
        parts = experience if isinstance(experience, tuple) else (experience,)
        (vector,) = (np.asarray(part) for part in parts if part.dtype != np.uint8)  # all others are images
        return update_statistics(statistics, vector, self.runner.encoder.measured)

    def film(self, network: Network, genomes: Tensor, seed: Tensor) -> Film:
        """Film the first genome in its first episode, and up to twelve others in the same one, in tiles below."""
        (episode,) = self._seeds(np.asarray(seed)[:1], 0, 1)[0]
        main, *others = (
            self.runner.film(network, genome[None], int(episode)) for genome in np.asarray(genomes)[: 1 + MAX_TILES]
        )
        return WithTiles(main, others) if others else main

    def __reduce__(self) -> Any:
        """Pickle the options alone: environments and compiled policies cannot be pickled."""
        return partial(type(self), **vars(self._options())), ()

    def _options(self) -> GymOptions:
        return GymOptions(**{option.name: getattr(self, option.name) for option in fields(GymOptions)})

    def _seeds(self, seed: np.ndarray, first: int, count: int) -> np.ndarray:
        """Return the seeds `[B, count]` of episodes `first` and later, from evaluation seeds `[B, 2]`."""
        words = np.ascontiguousarray(seed, np.int32).view(np.uint32)
        if self.seeds == "same":
            words = np.zeros_like(words)
        # Below 2**31: some simulators reject larger seeds.
        return np.array(
            [[_episode_seed([*row, number]) for number in range(first, first + count)] for row in words.tolist()]
        )

    def _confirm(self, network: Network, genome: Tensor, seed: np.ndarray, total: np.ndarray) -> bool:
        """Return whether a genome `[1, P]` with returns `[E]` stays above the threshold in more episodes."""
        # In batches: the first one already reveals most lucky genomes, and a hundred episodes take long.
        for first in range(0, self.confirm, CONFIRM_BATCH):
            more = self._seeds(seed, self.episodes + first, min(CONFIRM_BATCH, self.confirm - first))
            total = np.concatenate([total, self.runner.returns(network, genome, more)[0]])
            if not self._is_solved(self._aggregate(total)):
                return False
        return True

    def _aggregate(self, total: np.ndarray) -> np.ndarray:
        """Aggregate the episodes along the last axis; NaN if one of them is."""
        functions: dict[str, Callable[..., Any]] = {"mean": np.mean, "median": np.median, "min": np.min}
        return np.asarray(functions[self.aggregate](total, axis=-1))

    def _is_solved(self, fitness: np.ndarray) -> np.ndarray:
        threshold = self.runner.threshold
        return np.asarray(fitness >= (np.inf if threshold is None else threshold))


def _episode_seed(words: list[int]) -> int:
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)
