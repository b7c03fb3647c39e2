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
# # A plugin
#
# Write a mutation operator, try it on a model, check it, and evolve with it, without leaving the notebook. When it is
# finished, `tfsm plugins new` makes a package of it
# ([your own mutation operator](../../docs/guides/your-own-mutation.md)).

# %%
from dataclasses import dataclass
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

import tfsm
from tfsm.kernels.random import split, uniform
from tfsm.testing import check

# %% [markdown]
# ## The operator
#
# It mutates a random share of the weights, at least one of them, and leaves the others alone. An operator is a frozen dataclass: its fields are
# its options. Calling it makes a child of a parent `[P]`, and all randomness comes from `seed`. `network.noise` draws
# standard normal numbers, one per weight.


# %%
@dataclass(frozen=True)
class SparseNoise:
    """Gaussian noise on a random share of the weights."""

    share: float = 0.1

    uses_experience: ClassVar[bool] = False

    def __call__(self, network, parent, experience, intensity, seed):
        """Return the child of a parent `[P]`."""
        which, noise = split(seed, 2)
        drawn = uniform(which, network.size)  # [P]
        chosen = tf.cast(drawn <= tf.maximum(self.share, tf.reduce_min(drawn)), parent.dtype)
        return parent + intensity * chosen * network.noise(noise)


# %% [markdown]
# ## Try it
#
# The functions of `tfsm.functional` take an operator where they take the name of one. They work on genomes, the trainable
# weights as one vector. With a divergence, `tfsm` rescales the change that the operator makes.

# %%
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(32, "tanh"), keras.layers.Dense(2)])
seen = np.random.default_rng(0).normal(size=(50, 4))
parent = tfsm.flatten(model)

child = tfsm.functional.mutate(model, parent, seen, SparseNoise(share=0.2), intensity=0.1, seed=1)
print(f"{np.sum(child != parent)} of {parent.size} weights changed")

child = tfsm.functional.mutate(model, parent, seen, SparseNoise(share=0.2), divergence="1%", seed=1)
variance = model.predict(seen, verbose=0).var(axis=0).sum()
print(f"divergence: {tfsm.divergence(model, child, seen) / variance:.2%} of the variance of the outputs")

# %% [markdown]
# ## Check it
#
# `tfsm.testing.check` tries what every operator must fulfil: zero intensity gives the parent, the same seed the same
# child, another seed another child, a batch the same as one by one, and so on. Without "at least one of them" above, it
# would find that some children equal their parent. `tfsm plugins check` does the same for an installed package.

# %%
for outcome in check(SparseNoise(), "mutation"):
    print(f"{outcome.state:8}{outcome.check}")
    if outcome.state == "failed":
        print(f"        {outcome.message}")

# %% [markdown]
# ## Evolve with it
#
# `tfsm.evolve` takes the operator as well. The task is parity of two bits, which is solved within seconds.

# %%
result = tfsm.evolve("parity", mutation=SparseNoise(share=0.2), divergence=0.01, bits=2, population=50, seed=1)
print(f"solved {result.solved} of {len(result.runs)}, after {result.best.evaluations} evaluations")
