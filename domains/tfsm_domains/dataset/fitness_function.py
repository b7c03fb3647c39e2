"""A function of the user as a domain in plain Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import keras
import numpy as np

from tfsm.errors import TfsmError, format_error
from tfsm.interfaces import Evaluation, Nest, Tensor
from tfsm.models.genome import copy_model
from tfsm.models.loading import import_function
from tfsm.models.network import Network
from tfsm.plugins.options import OBJECT
from tfsm_domains.dataset import FitnessOptions
from tfsm_domains.dataset.recording import InputRecorder, NetworkBatch, RecordingModel, compile_call


@dataclass(frozen=True, kw_only=True)
class FitnessFunction(FitnessOptions):
    """Maximize a function of a network. Solved means that it reaches the target.

    The experience of an individual is a sample of the inputs that the function gave it.
    """

    compiled: ClassVar[bool] = False
    records_inputs: ClassVar[bool] = True
    callable: Callable[..., Any] | None = field(default=None, repr=False, metadata=OBJECT)
    """The function itself, if it comes from a program; `function` is then its name."""
    model: keras.Model | None = field(default=None, repr=False, compare=False, metadata=OBJECT)
    """The user's model."""

    @classmethod
    def from_program(cls, fitness: Any) -> tuple[FitnessFunction | None, dict[str, Any]]:
        """Return the domain for a function of a program, None for a name, and the options that describe it."""
        if isinstance(fitness, str):
            return None, {"function": fitness}
        if not callable(fitness):
            raise TfsmError(f"fitness: expected a function from a model to a number, got {type(fitness).__name__}")
        name = getattr(fitness, "__qualname__", type(fitness).__qualname__)
        return cls(function=name, callable=fitness), {"function": name}

    def __post_init__(self) -> None:
        """Import the function."""
        _ = self._function

    def network(self) -> keras.Model:
        """Return a copy of the user's model: there is no other."""
        if self.model is None:
            raise TfsmError(
                "a fitness function needs a model: tfsm.evolve(fitness=f, model=model), or --model on the command line"
            )
        return copy_model(self.model)

    def for_model(self, model: keras.Model) -> FitnessFunction:
        """Return the domain for a model."""
        return replace(self, model=model)

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Call the function for genomes `[B, P]`; behavior is the fitness."""
        values, seeds = np.asarray(genomes), [_as_integer(words) for words in np.asarray(seed)]
        recorders: list[InputRecorder] = []
        if self.batched:
            recorders = [InputRecorder(network.model, self.remembered) for _ in values]
            if network not in self._compiled_calls:
                self._compiled_calls[network] = compile_call(network)
            batch = NetworkBatch(network, values, recorders, self._compiled_calls[network])
            fitness = self._call_batched(batch, seeds)
        else:
            results = []
            for genome, own_seed in zip(values, seeds, strict=True):
                recording = self._recording_model(network)
                recorders.append(recording.load(genome))
                results.append(self._as_number(self._call(recording.model, own_seed)))
            fitness = np.array(results, np.float32)
        solved = np.zeros(len(fitness), bool) if self.target is None else fitness >= self.target
        behavior = np.where(np.isfinite(fitness), fitness, 0.0)[:, None].astype(np.float32)
        return Evaluation(fitness, solved, behavior, self._experience(network, recorders))

    def observe(self, experience: Nest) -> Nest:
        """Return the recorded inputs `[B, I, ...]`; zeros if the function never calls the network."""
        if not isinstance(experience, tuple):
            return experience
        if experience:
            return list(experience)
        assert self.model is not None, "the engine calls for_model first"
        inputs = [np.zeros([1, 1, *(size or 1 for size in x.shape[1:])], x.dtype) for x in self.model.inputs]
        return inputs[0] if len(inputs) == 1 else inputs

    def __reduce__(self) -> Any:
        """Pickle the options, the function and the model: copies of the model are made again."""
        return partial(type(self), **{each.name: getattr(self, each.name) for each in fields(self)}), ()

    @cached_property
    def _function(self) -> Callable[..., Any]:
        return self.callable or import_function(self.function, "a function from a model to a number")

    @cached_property
    def _takes_seed(self) -> bool:
        try:
            return "seed" in inspect.signature(self._function).parameters
        except (TypeError, ValueError):  # a function written in C
            return False

    @cached_property
    def _recording_models(self) -> WeakKeyDictionary[Network, RecordingModel]:
        return WeakKeyDictionary()

    @cached_property
    def _compiled_calls(self) -> WeakKeyDictionary[Network, Callable[..., Any]]:
        return WeakKeyDictionary()

    def _recording_model(self, network: Network) -> RecordingModel:
        if network not in self._recording_models:
            self._recording_models[network] = RecordingModel(network, self.remembered)
        return self._recording_models[network]

    def _call(self, argument: Any, seed: Any) -> Any:
        try:
            return self._function(argument, **({"seed": seed} if self._takes_seed else {}))
        except TfsmError:
            raise
        # SystemExit too: a function that calls sys.exit() has failed like any other.
        except (Exception, SystemExit) as error:
            raise TfsmError(f"the fitness function {self.function} failed: {_one_line(error)}") from error

    def _as_number(self, result: Any) -> float:
        value = _as_array(result)
        if value is None or value.size != 1:
            raise TfsmError(f"the fitness function {self.function} returned {_describe(result)}, expected a number")
        return float(value.reshape(()))

    def _call_batched(self, batch: NetworkBatch, seeds: list[int]) -> np.ndarray:
        result = self._call(batch, seeds)
        values = _as_array(result)
        if values is None or values.shape != (len(batch),):
            raise TfsmError(
                f"the fitness function {self.function} returned {_describe(result)}, expected one number for each of "
                f"{len(batch)} networks"
            )
        return values.astype(np.float32)

    def _experience(self, network: Network, recorders: list[InputRecorder]) -> Nest:
        samples = [recorder.sample() for recorder in recorders]
        known = next((sample for sample in samples if sample is not None), None)
        if known is None:
            return ()
        # An individual for which the network was not called has seen nothing: any other experience serves as well.
        parts = tuple(np.stack(part) for part in zip(*(sample or known for sample in samples), strict=True))
        return parts[0] if len(parts) == 1 else parts


def _as_integer(words: np.ndarray) -> int:
    """Return a seed of two words as one integer, as NumPy's generators take it."""
    first, second = np.ascontiguousarray(words, np.int32).view(np.uint32).tolist()
    return int(first) << 32 | int(second)


def _as_array(result: Any) -> np.ndarray | None:
    """Return numbers as an array; None if they are none."""
    try:
        array = np.asarray(result)
    except (TypeError, ValueError):
        return None
    return array if array.dtype.kind in "iuf" else None


def _describe(result: Any) -> str:
    array = _as_array(result)
    if array is not None and array.ndim:
        return f"an array of shape {array.shape}"
    return "None" if result is None else type(result).__name__


def _one_line(error: BaseException) -> str:
    return " ".join(format_error(error).split())
