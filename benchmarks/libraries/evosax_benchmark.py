"""evosax: SimpleGA with ask and tell in one compiled `lax.scan`, the fitness mapped with `vmap`."""

from __future__ import annotations

import functools
from typing import Any

import evosax  # noqa: F401  (so that the error names it if it is missing)
import jax
import jax.numpy as jnp
import numpy as np
import optax
from evosax.algorithms import SimpleGA

from benchmarks.libraries.problem import (
    BITS,
    DEVIATION,
    ODD,
    POPULATION,
    SHAPES,
    TINY,
    WEIGHTS,
    LibraryBenchmarks,
    TimedCall,
    draw_genomes,
    split_points,
)

GENERATIONS = 10
"""Generations in one compiled call."""

ABOUT = f"SimpleGA (best half are parents, Gaussian mutation), jit(lax.scan over {GENERATIONS} generations)"


def fitness(genome: jax.Array) -> jax.Array:
    parts = [part.reshape(shape) for part, shape in zip(jnp.split(genome, split_points()), SHAPES, strict=True)]
    first = second = jnp.zeros((16, 20))
    for t in range(4):
        first = jnp.tanh(BITS[:, t, None] @ parts[0] + first @ parts[1] + parts[2])
        second = jnp.tanh(first @ parts[3] + second @ parts[4] + parts[5])
    likelihood = jax.nn.softmax(second @ parts[6] + parts[7])[jnp.arange(16), ODD]
    return jnp.log(jnp.maximum(likelihood, TINY)).mean()


def make_benchmarks(quick: bool) -> LibraryBenchmarks:
    population = jnp.asarray(draw_genomes(POPULATION))
    evaluate = jax.jit(jax.vmap(fitness))
    algorithm = SimpleGA(POPULATION, jnp.zeros(WEIGHTS), std_schedule=optax.constant_schedule(DEVIATION))
    params = algorithm.default_params
    key = jax.random.key(0)
    state = algorithm.init(key, population, -evaluate(population), params)

    def generation(state: Any, key: jax.Array) -> tuple[Any, None]:
        ask_key, tell_key = jax.random.split(key)
        children, state = algorithm.ask(ask_key, state, params)
        state, _ = algorithm.tell(tell_key, children, -jax.vmap(fitness)(children), state, params)
        return state, None

    @jax.jit
    def evolve(state: Any, key: jax.Array) -> Any:
        return jax.lax.scan(generation, state, jax.random.split(key, GENERATIONS))[0]

    current = {"state": state, "key": key}

    def advance() -> None:
        current["key"], step_key = jax.random.split(current["key"])
        current["state"] = jax.block_until_ready(evolve(current["state"], step_key))

    normal = jax.jit(functools.partial(jax.random.normal, shape=(POPULATION, WEIGHTS)))
    return LibraryBenchmarks(
        lambda genomes: np.asarray(evaluate(jnp.asarray(genomes))),
        {"evosax": TimedCall(advance, POPULATION * GENERATIONS, ABOUT)},
        {
            "evosax: normal numbers": TimedCall(lambda: jax.block_until_ready(normal(key)), POPULATION),
            "evosax: evaluation": TimedCall(lambda: jax.block_until_ready(evaluate(population)), POPULATION),
        },
    )
