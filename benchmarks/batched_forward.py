"""B genomes of one Keras model at once: by layer rules, and by mapping the whole model.

    python benchmarks/batched_forward.py

Times one forward pass over parity's 16 sequences, and one SM-G-SUM mutation, for 20 genomes on one core.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from timing import milliseconds, one_core, table

from tfsm.evolution.initialization import Initializer
from tfsm.interfaces import Tensor
from tfsm.kernels.random import fold_in, root_seed
from tfsm.models.network import Network
from tfsm_domains.parity.parity import Parity
from tfsm_plugins.mutations.gradient import SafeMutationSum

GENOMES = 20


def networks() -> dict[str, Network]:
    """Return the same network twice: as tfsm runs it, and as it would run a model that it cannot look into."""
    model = Parity().network()
    by_rules, mapped = Network(model), Network(model)
    mapped.program.whole_model_reason = "for comparison"
    return {"mapped": mapped, "by rules": by_rules}


def main() -> None:
    one_core()
    domain = Parity()
    inputs = domain.observe(())  # [1, 16, 4, 1]
    both = networks()
    seeds = fold_in(root_seed(0), tf.range(GENOMES))  # [B, 2]
    genomes = Initializer("xavier-normal").genomes(both["by rules"], seeds)  # [B, P]
    operator, intensity = SafeMutationSum(experiences=16), tf.constant(0.001)

    def forward(network: Network, jit: bool) -> tf.types.experimental.PolymorphicFunction:
        return tf.function(lambda g: network.rows(g, inputs), jit_compile=jit, autograph=False)

    def mutation(network: Network, jit: bool) -> tf.types.experimental.PolymorphicFunction:
        def child(g: Tensor) -> Tensor:
            return operator(network, g, inputs, intensity, seeds)

        return tf.function(child, jit_compile=jit, autograph=False)

    outputs = [forward(network, False)(genomes).numpy() for network in both.values()]
    np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-6)  # both sides do the same work

    ways = {f"{name}, {'XLA' if jit else 'graph'}": (network, jit) for name, network in both.items() for jit in (0, 1)}
    rows = {}
    for title, make in (("forward pass", forward), ("SM-G-SUM mutation", mutation)):
        compiled = {way: make(network, bool(jit)) for way, (network, jit) in ways.items()}
        times = milliseconds({way: lambda f=f: f(genomes) for way, f in compiled.items()})
        rows[title] = list(times.values())
    table(f"{GENOMES} genomes of {both['by rules'].size:,} weights", list(ways), rows)


if __name__ == "__main__":
    main()
