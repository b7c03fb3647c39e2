# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # CartPole
#
# Evolve a controller for a [Gymnasium](https://gymnasium.farama.org) environment, look at it, and see what mutations do to
# it. It needs `pip install 'tfsm[gym,plot]'`. On the command line the first step is
# `tfsm run gym --set env=CartPole-v1 --mutation sm-g-sum`.

# %%
import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import tfsm

# %% [markdown]
# ## Evolve
#
# The default network has two hidden layers of 16 tanh units. Fitness is the mean return of five episodes; a network counts
# as solved if its mean over 100 more episodes reaches the environment's threshold of 475.

# %%
result = tfsm.evolve("gym", mutation="sm-g-sum", env="CartPole-v1", runs=3, seed=1, population=50, evaluations=2_000)
for run in result.runs:
    print(f"run {run.run}: solved {run.solved}, {run.evaluations} evaluations, fitness {run.best_fitness:.0f}")

# %% [markdown]
# ## Watch the champion
#
# The champion is a Keras model. Here is one episode, step by step, recorded as the experience for the mutations below.

# %%
champion = result.champion()


def play(genomes, seed=7):
    """Play one episode with each genome, all side by side, and return what each of them saw."""
    envs = [gymnasium.make("CartPole-v1") for _ in genomes]
    observations = np.stack([env.reset(seed=seed)[0] for env in envs])
    seen = [[] for _ in envs]
    playing = set(range(len(envs)))
    while playing:
        # One compiled call for all of them: genomes [B, P], inputs [B, 1, 4], outputs [B, 1, 2].
        outputs = tfsm.functional.outputs(champion, genomes, observations[:, None], each=True)[:, 0]
        for index in list(playing):
            seen[index].append(observations[index].copy())
            observations[index], _, terminated, truncated, _ = envs[index].step(int(outputs[index].argmax()))
            if terminated or truncated:
                playing.remove(index)
    return [np.array(episode, "float32") for episode in seen]


genome = tfsm.flatten(champion)
(seen,) = play(genome[None])
print(f"{len(seen)} of 500 steps")

plt.figure(figsize=(7, 2.6))
plt.plot(seen[:, 0], label="position of the cart")
plt.plot(seen[:, 2], label="angle of the pole")
plt.xlabel("step")
plt.legend()
plt.tight_layout()
plt.show()

# %% [markdown]
# ## Mutate the champion
#
# Ten mutants by plain noise and ten by a safe mutation. Their weights change by the same length, so only the direction
# differs. The score of each is the number of steps in the episode above.

# %%
length = 3.0
parents = np.tile(genome, [10, 1])
for operator in ("control", "sm-g-abs"):
    changes = tfsm.functional.mutate(champion, parents, seen, operator, divergence="1%", seed=3) - genome
    mutants = genome + length * changes / np.linalg.norm(changes, axis=1, keepdims=True)
    steps = [len(episode) for episode in play(mutants)]
    print(f"{operator:9} {steps}, mean {np.mean(steps):.0f}")
