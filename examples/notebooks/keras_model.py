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
# # A Keras model of your own
#
# You have a trained Keras model and want variants of it that still work. Plain noise on the weights rarely gives you one.
# This notebook trains a small classifier, measures which of its weights matter, and compares plain noise with safe
# mutations. It needs `pip install 'tfsm[plot]'`.

# %%
import keras
import matplotlib.pyplot as plt
import numpy as np

import tfsm

# %% [markdown]
# ## The model
#
# Two interleaved spirals, and a network of four layers. Replace this cell by `model = tfsm.load_model("yours.keras")` and
# some inputs of your own.

# %%
rng = np.random.default_rng(0)
labels = rng.integers(0, 2, 600)
turn = rng.uniform(0.5, 3.0, 600)
angle = 2 * turn + np.pi * labels
x = (turn[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1) / 3).astype("float32")
x += rng.normal(0, 0.02, x.shape).astype("float32")

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.Input((2,)),
        keras.layers.Dense(48, "tanh", name="first"),
        keras.layers.Dense(48, "tanh", name="second"),
        keras.layers.Dense(48, "tanh", name="third"),
        keras.layers.Dense(2, "softmax", name="answer"),
    ]
)
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", jit_compile=False)
model.fit(x, labels, batch_size=100, epochs=40, verbose=0)


def accuracy(network):
    return float(np.mean(network.predict(x, verbose=0).argmax(axis=1) == labels))


print(f"{model.count_params():,} weights, accuracy {accuracy(model):.1%}")

# %% [markdown]
# ## Which weights matter
#
# `tfsm.sensitivity` measures how strongly the outputs respond to each weight, on inputs that the model has seen. The
# weights of one network differ by orders of magnitude, and this is why the same noise on all of them does harm.

# %%
seen = x[:100]
sensitivity = tfsm.sensitivity(model, seen, "sm-g-abs")
low, middle, high = np.quantile(sensitivity, [0.05, 0.5, 0.95])
print(f"the middle 90 % of the weights: from {low:.2g} to {high:.2g}, median {middle:.2g}")

plt.figure(figsize=(7, 2.6))
start = 0
for layer in model.layers:
    size = layer.count_params()
    values = sensitivity[start : start + size]
    plt.hist(np.log10(values[values > 0]), bins=40, histtype="step", label=layer.name)
    start += size
plt.xlabel("sensitivity of a weight, power of ten")
plt.ylabel("weights")
plt.legend()
plt.tight_layout()
plt.show()

# %% [markdown]
# ## One child
#
# A divergence of 1% means: the outputs move by 1% of their variance over the inputs that you give. It is the only number
# to choose, and means the same for every operator and every network. The child is a new Keras model; the parent is
# unchanged.

# %%
child = tfsm.mutate(model, seen, "sm-g-abs", divergence="1%", seed=1)
moved = np.linalg.norm(tfsm.flatten(child) - tfsm.flatten(model))
print(f"accuracy {accuracy(child):.1%}, after a change of length {moved:.2f}")

# %% [markdown]
# ## Many children, compared with plain noise
#
# Both operators now move the outputs by the same amount. What differs is how far the *weights* move for it: safe mutations
# put the change where it does no harm, so that a search gets further in weight space at the same risk.
# `tfsm.functional.mutate` makes many children in one compiled call.

# %%
parent = tfsm.flatten(model)
parents = np.tile(parent, [30, 1])
for operator in ("control", "sm-g-abs"):
    children = tfsm.functional.mutate(model, parents, seen, operator, divergence="1%", seed=1)
    lengths = np.linalg.norm(children - parent, axis=1)
    outputs = tfsm.functional.outputs(model, children, x)
    right = (outputs.argmax(axis=-1) == labels).mean(axis=1)
    print(f"{operator:9} mean length {lengths.mean():5.2f}, mean accuracy {right.mean():.1%}, worst {right.min():.1%}")

# %% [markdown]
# Conversely, changes of the same *length*: the change of each child is rescaled to the same lengths.

# %%
plt.figure(figsize=(7, 3))
lengths = np.array([3, 6, 12, 25, 50, 100])
for operator in ("control", "sm-g-abs"):
    changes = tfsm.functional.mutate(model, parents, seen, operator, divergence="1%", seed=1) - parent
    directions = changes / np.linalg.norm(changes, axis=1, keepdims=True)
    means = []
    for length in lengths:
        outputs = tfsm.functional.outputs(model, parent + length * directions, x)
        means.append((outputs.argmax(axis=-1) == labels).mean())
    plt.plot(lengths, means, "o-", label=operator)
plt.xscale("log")
plt.xlabel("length of the change of the weights")
plt.ylabel("mean accuracy of 30 mutants")
plt.ylim(0.45, 1.02)
plt.legend()
plt.tight_layout()
plt.show()
