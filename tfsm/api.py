"""The public functions for Keras models: mutate, sensitivity, divergence, and evolve.

`evolve` imports settings, run directories and worker pools when it is called; the other functions do not need them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from tfsm.errors import TfsmError
from tfsm.functional import (
    DEFAULT_MUTATION,
    check_seed,
    choose_strength,
    default_direction,
    describe_problems,
    pack_seeds,
    prepare_experience,
)
from tfsm.functional._batching import BatchRunner, build_operator, require_sensitivity
from tfsm.interfaces import Domain, Mutation, Selection
from tfsm.models.genome import flatten
from tfsm.models.network import Network, build_network

if TYPE_CHECKING:
    from tfsm.plugins import Plugins
    from tfsm.runs.result import Result

__all__ = ["divergence", "evolve", "mutate", "sensitivity"]


def mutate(
    model: keras.Model,
    experience: Any,
    mutation: str | Mutation = DEFAULT_MUTATION,
    intensity: float | None = None,
    seed: int = 0,
    *,
    divergence: float | str | None = None,
    layers: str | Sequence[str] | None = None,
    **options: Any,
) -> keras.Model:
    """Return a mutated copy of a model, which differs from it in trainable variables only.

    Args:
        model: a built Keras model; it is not changed.
        experience: inputs `[N, ...]` that the model saw.
        mutation: the operator's name, or an operator of your own.
        intensity: the standard deviation of the noise; for `sm-r` the target divergence.
        seed: the same seed gives the same child.
        divergence: how far the child's outputs move on the experience, instead of an intensity: a number, or a
            percentage of the variance of the model's outputs. 1% if neither is given.
        layers: names of the layers to mutate, with wildcards and shares of the intensity: `"conv*=0.1,@head"`; all
            layers with the full intensity if None.
        **options: the operator's options, as listed by `tfsm mutations`.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, activation="tanh")])
    >>> child = tfsm.mutate(model, np.ones((4, 2)), "sm-g-abs", divergence=0.1)
    >>> round(tfsm.divergence(model, child, np.ones((4, 2))), 1)
    0.1
    """
    strength = choose_strength(intensity, divergence)
    check_seed(seed)
    operator = build_operator(mutation, options, strength.target)
    runner = BatchRunner(build_network(model, layers or ()), compiled=False)
    seen = prepare_experience(model, experience)
    genome = runner.network.genome[None]
    child = runner.mutate(operator, genome, seen, strength, pack_seeds(seed, 1, single=True))
    for problem in describe_problems(child, strength):
        name = mutation if isinstance(mutation, str) else type(mutation).__name__
        warnings.warn(f"{name}: {problem}", stacklevel=2)
    return runner.network.child(child.genome[0])


def sensitivity(
    model: keras.Model,
    experience: Any,
    mutation: str | Mutation = DEFAULT_MUTATION,
    direction: np.ndarray | None = None,
) -> np.ndarray:
    """Return how sensitive the outputs are to each weight: the raw vector `[P]`, before any guard.

    Args:
        model: a built Keras model.
        experience: inputs `[N, ...]`, all of which are used.
        mutation: an operator that measures a sensitivity: its name, or an operator of your own.
        direction: for `sm-g-so`, the direction `[P]` along which the curvature is measured, used as given; a random
            unit vector if None.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> tfsm.sensitivity(model, np.array([[3.0, -1.0], [1.0, 1.0]]), "sm-g-abs")
    array([2., 1., 1.], dtype=float32)
    """
    operator = require_sensitivity(build_operator(mutation, {}), mutation)
    runner = BatchRunner(Network(model), compiled=False)
    seen = prepare_experience(model, experience)
    network = runner.network
    if direction is None:
        along = default_direction(network)
    else:
        along = np.asarray(direction, network.dtype.as_numpy_dtype)[None]
        if along.shape != (1, network.size):
            raise TfsmError(
                f"expected a direction of {network.size:,} weights, got an array of shape {along.shape[1:]}"
            )
    return runner.sensitivity(operator, network.genome[None], seen, along)[0]


def divergence(model: keras.Model, other: keras.Model | np.ndarray, experience: Any) -> float:
    """Return how far the outputs of two networks are apart: the paper's equation 1.

    Args:
        model: a built Keras model.
        other: another model of the same architecture, or a genome `[P]`.
        experience: inputs `[N, ...]`; a list or dict of them for a model with several inputs.

    >>> import keras, numpy as np, tfsm
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, "linear", False, "ones")])
    >>> tfsm.divergence(model, tfsm.flatten(model) + 2.0, np.ones((5, 1)))
    4.0
    """
    runner = BatchRunner(Network(model), compiled=False)
    seen = prepare_experience(model, experience)
    network = runner.network
    genome = flatten(other) if isinstance(other, keras.Model) else np.asarray(other)
    if genome.shape != (network.size,):
        raise TfsmError(f"expected a genome of {network.size:,} weights, got an array of shape {genome.shape}")
    others = genome.astype(network.genome.dtype)[None]
    return float(runner.divergence(network.genome[None], others, seen)[0])


def evolve(
    domain: str | Domain | None = None,
    model: keras.Model | str | Path | None = None,
    mutation: str | Mutation = DEFAULT_MUTATION,
    intensity: float | None = None,
    divergence: float | str | None = None,
    selection: str | Selection | None = None,
    runs: int | None = None,
    seed: int | None = None,
    evaluations: int | None = None,
    population: int | None = None,
    offspring: int | None = None,
    mutated_layers: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    config: str | Path | None = None,
    observers: Sequence[Any] = (),
    resume: bool = False,
    backend: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    grain: str | None = None,
    profile: str | None = None,
    data: Any = None,
    validation: Any = None,
    loss: Any = None,
    fitness: Callable[..., Any] | str | None = None,
    **options: Any,
) -> Result:
    """Evolve a network for a domain, for data or for a fitness function, in `runs` independent runs.

    Give exactly one of `domain`, `data` and `fitness`.

    Args:
        domain: the domain's name, or a domain of your own.
        model: a network to use instead of the domain's own: a Keras model, a `.keras` file, or a function's name,
            `package.module:function`. With `init="model"`, the default for a file, all runs start from its weights.
        mutation: the operator's name, or an operator of your own.
        intensity: the operator's intensity.
        divergence: how far the outputs of a child move on its parent's experience, instead of an intensity: a number,
            or a percentage of the variance of the parent's outputs.
        selection: the selection scheme's name, or a scheme of your own.
        runs: number of runs, evolved in lock step.
        seed: the random seed of the experiment.
        evaluations: maximum evaluations per run.
        population: individuals per run.
        offspring: children that a run makes at once, from the same population; by default one, or a whole generation
            where the scheme has generations.
        mutated_layers: the layers to mutate, like `layers` of `tfsm.mutate`.
        out: a run directory to write; nothing is written if None.
        config: a `tfsm.toml` to use instead of the nearest one.
        observers: observers to notify: names, or `Observer` objects.
        resume: continue the experiment in `out` from its last checkpoint, if there is one. The other arguments must be
            the same as before, except that `runs` and `evaluations` may be larger.
        backend: `local` to work in this process, `processes` for processes on this machine, `ray` for a cluster.
        workers: number of workers, one per core if None.
        address: the Ray cluster to use; None starts a local one.
        grain: the unit of work for a worker: `runs`, a group of runs, or `children`, a single child.
        profile: named settings for the domain, such as `published`, the choices of the paper's code.
        data: a pair `(x, y)` of arrays, or a file of them, to fit; the domain `dataset` has the other options. A given
            Keras model is the starting point of all runs, unless `init` says otherwise; the same holds for `fitness`.
        validation: another pair, a file, or the share of the data to hold out; it is measured and logged, and never
            used for selection.
        loss: the name of a Keras loss, or a function from targets and outputs to one number per example.
        fitness: a function from a Keras model to a number, higher is better; with `batched=True` from a batch of
            networks to one number for each. Or its name, `package.module:function`.
        **options: options of the domain, operator, scheme or engine (`bits=3`, `floor=0.02`), like `--set`.

    >>> import tfsm
    >>> result = tfsm.evolve("simple-easy", mutation="sm-g-abs", runs=2, seed=1)
    >>> result.solved
    2
    """
    from tfsm.parallel.pool import choose_backend
    from tfsm.plugins import load_plugins
    from tfsm.runs.build import resolve_parts
    from tfsm.runs.records import RECORD
    from tfsm.runs.resume import check_same_experiment
    from tfsm.runs.runner import run_experiment

    plugins = load_plugins()
    plugins, domain, task_options = _choose_task(plugins, domain, model, data, validation, loss, fitness)
    overrides = {
        "intensity": intensity,
        "divergence": divergence,
        "runs": runs,
        "seed": seed,
        "evaluations": evaluations,
        "population": population,
        "offspring": offspring,
        "model": str(model) if isinstance(model, str | Path) else None,
        "mutated_layers": mutated_layers,
        "observers": [name for name in observers if isinstance(name, str)] or None,
    }
    plugins, resolved = resolve_parts(
        plugins, domain, mutation, selection, overrides, {**task_options, **options}, config, profile
    )
    folder = Path(out) if out is not None else None
    resuming = resume and folder is not None and (folder / RECORD).is_file()
    if resuming and folder is not None:
        check_same_experiment(folder, resolved.settings)
    return run_experiment(
        plugins,
        resolved,
        model=None if isinstance(model, str | Path) else model,
        out=folder,
        keep=out is not None,
        resume=resuming,
        observers=[observer for observer in observers if not isinstance(observer, str)],
        notify=lambda message: warnings.warn(message, stacklevel=2),
        backend=choose_backend(backend, workers, address, grain),
    )


def _choose_task(
    plugins: Plugins, domain: str | Domain | None, model: Any, data: Any, validation: Any, loss: Any, fitness: Any
) -> tuple[Plugins, str | Domain, dict[str, Any]]:
    """Return the domain, registered with the user's arrays or function if it is made of these, and its options."""
    tasks = {"domain": domain, "data": data, "fitness": fitness}
    given = [name for name, task in tasks.items() if task is not None]
    if len(given) != 1:
        raise TfsmError(f"give exactly one of domain, data and fitness, got {' and '.join(given) or 'none'}")
    if data is None:
        for name, value in (("validation", validation), ("loss", loss)):
            if value is not None:
                raise TfsmError(f"{name} is for data: tfsm.evolve(data=(x, y), {name}=...)")
    if domain is not None:
        return plugins, domain, {}
    entry = plugins.domains["dataset" if data is not None else "fitness"]
    part: Any = entry.load()
    if data is not None:
        instance, options = part.from_program(data, validation, loss)
    else:
        instance, options = part.from_program(fitness)
    # Weights that come with a model object are not thrown away, unless the user says so.
    defaults = {**entry.defaults, **({"init": "model"} if isinstance(model, keras.Model) else {})}
    return plugins.with_entry(replace(entry, instance=instance, defaults=defaults)), entry.name, options
