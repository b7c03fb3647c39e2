"""Safe mutations as operators for DEAP's toolbox.

An individual is any sequence of numbers with a fitness, such as a list or an array. Like DEAP's own operators, these
draw their random numbers from the module `random`.
"""

from __future__ import annotations

import array
import random
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tfsm import functional
from tfsm.errors import TfsmError, import_optional
from tfsm.interfaces import Mutation

import_optional("deap", extra="deap", purpose="tfsm.integrations.deap")


def init_genome(container: Any, model: keras.Model, scheme: Any = "xavier-normal", scale: float | None = None) -> Any:
    """Return a random individual.

    Args:
        container: the class of individuals, called with a genome.
        model: the network of the genomes.
        scheme: how weights are drawn; see `tfsm.functional.initial`.
        scale: the spread of the scheme.

    >>> import keras
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> len(init_genome(list, model))
    3
    """
    (genome,) = functional.initial(model, 1, random.getrandbits(62), scheme, scale)
    return container(genome.tolist())


def mut_safe(
    individual: Any,
    model: keras.Model,
    experience: Any = None,
    mutation: str | Mutation = functional.DEFAULT_MUTATION,
    intensity: float | None = None,
    divergence: float | str | None = None,
    **options: Any,
) -> tuple[Any]:
    """Mutate an individual in place, and return it in a tuple, as operators of a toolbox do.

    Args:
        individual: a genome `[P]`.
        model: the network of the genomes.
        experience: inputs `[N, ...]`; None: the individual's own, its attribute `experience`.
        mutation: the operator's name, or an operator.
        intensity: the mutation intensity.
        divergence: how far the outputs of the child move, instead of an intensity; 1% if neither is given.
        options: the operator's options.

    >>> import keras, numpy as np
    >>> from deap import base
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> toolbox = base.Toolbox()
    >>> toolbox.register("mutate", mut_safe, model=model, experience=np.ones((5, 2)), divergence=0.01)
    >>> (child,) = toolbox.mutate([1.0, 2.0, 3.0])
    >>> len(child)
    3
    """
    mutate_all([individual], model, experience, mutation, intensity, divergence, **options)
    return (individual,)


def var_safe(
    population: Sequence[Any],
    toolbox: Any,
    model: keras.Model,
    experience: Any = None,
    mutation: str | Mutation = functional.DEFAULT_MUTATION,
    intensity: float | None = None,
    divergence: float | str | None = None,
    **options: Any,
) -> list[Any]:
    """Return one child of each individual, without a fitness: all are made by one call, which is much faster.

    Args:
        population: the parents; they are not changed.
        toolbox: has `clone`.
        model: the network of the genomes.
        experience: inputs `[N, ...]` for all; None: each individual's own, its attribute `experience`.
        mutation: the operator's name, or an operator.
        intensity: the mutation intensity.
        divergence: how far the outputs of each child move, instead of an intensity; 1% if neither is given.
        options: the operator's options.
    """
    children = [toolbox.clone(individual) for individual in population]
    mutate_all(children, model, experience, mutation, intensity, divergence, **options)
    for child in children:
        del child.fitness.values
    return children


def mutate_all(
    individuals: Sequence[Any],
    model: keras.Model,
    experience: Any = None,
    mutation: str | Mutation = functional.DEFAULT_MUTATION,
    intensity: float | None = None,
    divergence: float | str | None = None,
    **options: Any,
) -> None:
    """Mutate individuals in place by one call; see `mut_safe` for the arguments."""
    if not individuals:
        return
    if experience is None:
        lacking = [individual for individual in individuals if getattr(individual, "experience", None) is None]
        if lacking:
            raise TfsmError("an individual has no attribute 'experience': set it when evaluating, or pass experience")
        inputs = np.stack([individual.experience for individual in individuals])
    children = functional.mutate(
        model,
        np.array([np.asarray(individual) for individual in individuals]),
        inputs if experience is None else experience,
        mutation,
        intensity,
        random.getrandbits(62),
        divergence=divergence,
        each=experience is None,
        **options,
    )
    for individual, child in zip(individuals, children, strict=True):
        if isinstance(individual, np.ndarray):
            individual[:] = child
        elif isinstance(individual, array.array):
            individual[:] = array.array(individual.typecode, child.tolist())
        else:
            individual[:] = child.tolist()
