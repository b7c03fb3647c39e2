"""Safe mutations as an emitter of pyribs."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tfsm import functional
from tfsm.errors import TfsmError, import_optional
from tfsm.interfaces import Mutation
from tfsm.models.genome import flatten

_emitters: Any = import_optional("ribs.emitters", extra="ribs", purpose="tfsm.integrations.ribs")


class SafeEmitter(_emitters.EmitterBase):
    """Emits safe mutations of elites that are drawn uniformly from the archive.

    Args:
        archive: an archive of genomes `[P]`.
        model: the network of the genomes.
        mutation: the operator's name, or an operator.
        intensity: the mutation intensity.
        divergence: how far the outputs of each child move, instead of an intensity; 1% if neither is given.
        experience: inputs `[N, ...]` on which all elites are mutated.
        experience_field: otherwise the field of the archive with the experience `[N, ...]` of each elite; it is
            declared with `extra_fields`, and passed to `tell`.
        initial_solutions: `[B, P]`, emitted while the archive is empty; random genomes by default.
        batch_size: B, the number of children per call of `ask`.
        bounds: as in other emitters; None for no bounds.
        seed: random seed.
        options: the operator's options.

    >>> import keras, numpy as np
    >>> from ribs.archives import GridArchive
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> archive = GridArchive(solution_dim=3, dims=[10], ranges=[(-1.0, 1.0)])
    >>> emitter = SafeEmitter(archive, model, divergence="1%", experience=np.ones((5, 2)), batch_size=8)
    >>> emitter.ask().shape
    (8, 3)
    """

    def __init__(
        self,
        archive: Any,
        model: keras.Model,
        *,
        mutation: str | Mutation = functional.DEFAULT_MUTATION,
        intensity: float | None = None,
        divergence: float | str | None = None,
        experience: Any = None,
        experience_field: str = "experience",
        initial_solutions: np.ndarray | None = None,
        batch_size: int = 64,
        bounds: Any = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        size = flatten(model).size
        if archive.solution_dim != size:
            raise TfsmError(f"the archive's solution_dim is {archive.solution_dim}, but the model has {size} weights")
        if experience is None and experience_field not in archive.field_list:
            raise TfsmError(
                f"the archive has no field {experience_field!r}: pass experience, or "
                f"extra_fields={{{experience_field!r}: (shape, np.float32)}} to the archive"
            )
        super().__init__(
            archive, solution_dim=archive.solution_dim, bounds=bounds, lower_bounds=None, upper_bounds=None
        )
        self._model, self._mutation, self._options = model, mutation, options
        self._intensity, self._divergence = intensity, divergence
        self._experience, self._field = experience, experience_field
        self._batch_size = batch_size
        self._rng = np.random.default_rng(seed)
        self._initial = initial_solutions

    @property
    def batch_size(self) -> int:
        """The number of children per call of `ask`."""
        return self._batch_size

    def ask(self) -> np.ndarray:
        """Return children of elites `[B, P]`, or the initial solutions."""
        seed = int(self._rng.integers(2**62))
        if self.archive.empty:
            if self._initial is not None:
                return np.asarray(self._initial)
            return self._clip(functional.initial(self._model, self._batch_size, seed))
        elites = self.archive.sample_elites(self._batch_size)
        shared = self._experience is not None
        children = functional.mutate(
            self._model,
            elites["solution"],
            self._experience if shared else elites[self._field],
            self._mutation,
            self._intensity,
            seed,
            divergence=self._divergence,
            each=not shared,
            **self._options,
        )
        return self._clip(children)

    def _clip(self, genomes: np.ndarray) -> np.ndarray:
        return np.clip(genomes.astype(self.archive.dtypes["solution"]), self.lower_bounds, self.upper_bounds)
