"""Safe mutations as an operator of EvoTorch."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import keras

from tfsm import functional
from tfsm.errors import TfsmError, import_optional
from tfsm.interfaces import Mutation
from tfsm.models.genome import flatten

_PURPOSE = "tfsm.integrations.evotorch"
_torch: Any = import_optional("torch", extra="evotorch", purpose=_PURPOSE)
_operators: Any = import_optional("evotorch.operators", extra="evotorch", purpose=_PURPOSE)


class SafeMutation(_operators.CopyingOperator):
    """Mutates the solutions of a batch by one call, for example in EvoTorch's `GeneticAlgorithm`.

    Args:
        problem: a problem whose solutions are genomes `[P]`.
        model: the network of the genomes.
        experience: inputs `[N, ...]` on which all solutions are mutated; or a function without arguments that returns
            them, called for every batch.
        mutation: the operator's name, or an operator.
        intensity: the mutation intensity.
        divergence: how far the outputs of each child move, instead of an intensity; 1% if neither is given.
        options: the operator's options.

    The random numbers come from the problem's generator, so that its seed determines everything.
    """

    def __init__(
        self,
        problem: Any,
        *,
        model: keras.Model,
        experience: Any,
        mutation: str | Mutation = functional.DEFAULT_MUTATION,
        intensity: float | None = None,
        divergence: float | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(problem)
        size = flatten(model).size
        if problem.solution_length != size:
            raise TfsmError(
                f"the problem's solution_length is {problem.solution_length}, but the model has {size} weights"
            )
        self._model, self._experience, self._mutation = model, experience, mutation
        self._intensity, self._divergence, self._options = intensity, divergence, options

    def _do(self, batch: Any) -> Any:
        result = deepcopy(batch)
        with _torch.no_grad():
            seed = int(self.problem.make_randint((), n=2**62, dtype=_torch.int64))
            children = functional.mutate(
                self._model,
                batch.values.cpu().numpy(),
                self._experience() if callable(self._experience) else self._experience,
                self._mutation,
                self._intensity,
                seed,
                divergence=self._divergence,
                **self._options,
            )
            values = _torch.from_numpy(children).to(dtype=batch.values.dtype, device=batch.values.device)
            result.set_values(self._respect_bounds(values))
        return result
