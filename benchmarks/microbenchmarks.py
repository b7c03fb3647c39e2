"""Small benchmarks behind single design decisions: `python -m benchmarks.microbenchmarks NAME [GENOMES]`.

All candidates run in one process on one core, in turns. The table contains the minimum of many times for each, in
milliseconds. `--help` lists the names.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Mapping
from textwrap import shorten
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from keras import layers as kl

import tfsm
from tfsm.evolution.initialization import Initializer
from tfsm.interfaces import Tensor
from tfsm.kernels.random import fold_in, gaussian, root_seed
from tfsm.kernels.sensitivity import abs_sensitivity
from tfsm.models import program
from tfsm.models.network import Network
from tfsm.models.rules import rule_for
from tfsm.models.rules.convolution import extract_patches
from tfsm_domains.hard_maze.domain import BLOCK, residual_network
from tfsm_domains.hard_maze.robot import SENSORS
from tfsm_domains.parity.parity import Parity
from tfsm_plugins.mutations.gradient import SafeMutationSum

ROUNDS = 7
ROUND_SECONDS = 0.15


def benchmark_noise(genomes: int = 20) -> None:
    """Normal noise with one seed per genome: tfsm's Threefry and TensorFlow's stateless generator."""
    weights = 1302  # of the parity network

    def threefry(seeds: Tensor) -> Tensor:
        return gaussian(seeds, weights)

    def stateless(seeds: Tensor) -> Tensor:
        # A seed per genome: the noise must not depend on the other genomes of the batch.
        return tf.stack([tf.random.stateless_normal([weights], seeds[i]) for i in range(genomes)])

    def stateless_one_seed(seeds: Tensor) -> Tensor:
        return tf.random.stateless_normal([genomes, weights], seeds[0])

    seeds = fold_in(root_seed(0), tf.range(genomes))  # [B, 2]
    rows = {}
    for title, draw in {
        "tfsm, one seed per genome": threefry,
        "tf.random.stateless_normal, one seed per genome": stateless,
        "tf.random.stateless_normal, one seed for all": stateless_one_seed,
    }.items():
        compiled = {
            way: tf.function(draw, jit_compile=jit, autograph=False) for way, jit in (("XLA", True), ("graph", False))
        }
        rows[title] = list(measure_milliseconds({way: lambda f=f: f(seeds) for way, f in compiled.items()}).values())
    print_table(f"{genomes} x {weights:,} normal numbers", ["XLA", "graph"], rows)


def benchmark_batched_forward(genomes: int = 20) -> None:
    """Forward pass and SM-G-SUM on parity: by layer rules, and by mapping the whole model."""
    domain = Parity()
    inputs = domain.observe(())  # [1, 16, 4, 1]
    model = domain.network()
    by_rules, mapped = Network(model), Network(model)
    mapped.program.whole_model_reason = "for comparison"
    networks = {"mapped": mapped, "by rules": by_rules}
    seeds = fold_in(root_seed(0), tf.range(genomes))  # [B, 2]
    parents = Initializer("xavier-normal").genomes(by_rules, seeds)  # [B, P]
    operator, intensity = SafeMutationSum(experiences=16), tf.constant(0.001)

    def forward(network: Network, jit: bool) -> Any:
        return tf.function(lambda g: network.rows(g, inputs), jit_compile=jit, autograph=False)

    def mutation(network: Network, jit: bool) -> Any:
        def make_child(g: Tensor) -> Tensor:
            return operator(network, g, inputs, intensity, seeds)

        return tf.function(make_child, jit_compile=jit, autograph=False)

    outputs = [forward(network, False)(parents).numpy() for network in networks.values()]
    np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-6)  # both do the same work
    ways = {
        f"{name}, {'XLA' if jit else 'graph'}": (network, jit)
        for name, network in networks.items()
        for jit in (False, True)
    }
    rows = {}
    for title, make in (("forward pass", forward), ("SM-G-SUM mutation", mutation)):
        compiled = {way: make(network, jit) for way, (network, jit) in ways.items()}
        times = measure_milliseconds({way: lambda f=f: f(parents) for way, f in compiled.items()})
        rows[title] = list(times.values())
    print_table(f"{genomes} genomes of {by_rules.size:,} weights", list(ways), rows)


def benchmark_layer_rules(genomes: int = 8) -> None:
    """Layers by their rules, and the same layers mapped over the genomes: outputs and SM-G-ABS sensitivities."""
    experiences, sequence, picture = 20, (12, 8), (8, 8, 4)
    models: dict[str, tuple[tuple[int, ...], list[Any]]] = {
        "BatchNormalization": (picture, [kl.Conv2D(8, 3), kl.BatchNormalization(), kl.Flatten(), kl.Dense(2)]),
        "LayerNormalization": (sequence, [kl.Dense(16), kl.LayerNormalization(), kl.Flatten(), kl.Dense(2)]),
        "GroupNormalization": (picture, [kl.Conv2D(8, 3), kl.GroupNormalization(2), kl.Flatten(), kl.Dense(2)]),
        "PReLU": (sequence, [kl.Dense(16), kl.PReLU(), kl.Flatten(), kl.Dense(2)]),
        "Bidirectional": (sequence, [kl.Bidirectional(kl.LSTM(8)), kl.Dense(2)]),
    }
    rows: dict[str, list[float | None]] = {}
    candidates: dict[str, Callable[[], Any]] = {}
    for kind, (shape, layers) in models.items():
        model = keras.Sequential([keras.Input(shape), *layers])
        x = tf.random.stateless_normal([1, experiences, *shape], [0, 0])
        candidates = {}
        for way in ("rule", "mapped"):
            without = (lambda layer, kind=kind: None if type(layer).__name__ == kind else rule_for(layer), rule_for)
            with mock.patch.object(program, "rule_for", without[way == "rule"]):
                network = Network(model)
                batch = network.genome + 0.1 * tf.random.stateless_normal([genomes, network.size], [1, 2])
                outputs = tf.function(network.rows, autograph=False).get_concrete_function(batch, x)
                traced = tf.function(lambda g, x, n=network: abs_sensitivity(n, g, x), autograph=False)
                sensitivity = traced.get_concrete_function(batch, x)
            candidates[f"outputs, {way}"] = lambda run=outputs, batch=batch, x=x: run(batch, x)
            candidates[f"sm-g-abs, {way}"] = lambda run=sensitivity, batch=batch, x=x: run(batch, x)
        rows[kind] = list(measure_milliseconds(candidates).values())
    print_table(f"{genomes} genomes, {experiences} experiences", list(candidates), rows)


_PICTURES, _MAPS, _OUTPUTS = 15, 12, 5
_CONVOLUTIONS = [(5, 2, 1), (5, 2, _MAPS), *[(3, 1, _MAPS)] * 12]
"""Window, stride and input maps of each layer of the pixel mazes' network."""


def benchmark_convolutions(genomes: int = 5) -> None:
    """Convolutions with separate filters per genome, as in the pixel mazes' network: forward and backward.

    Milliseconds per genome: forward over 15 pictures, and five backward passes, one per output. Run it with
    TF_ENABLE_ONEDNN_OPTS=0 and with 1.
    """
    x = tf.random.stateless_normal([1, _PICTURES, 64, 64, 1], [0, 0])
    filters = [
        0.1 * tf.random.stateless_normal([genomes, window, window, maps, _MAPS], [i, 1])
        for i, (window, _, maps) in enumerate(_CONVOLUTIONS)
    ]
    rows = {}
    for title, run in {
        "patches": _convolve_patches,
        "groups": _convolve_in_groups,
        "lane by lane": _convolve_lane_by_lane,
    }.items():

        def backward(x: Tensor, filters: list[Tensor], run: Callable[..., Tensor] = run) -> Tensor:
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(filters)
                features = run(x, filters)
                outputs = [tf.reduce_sum(tf.sin((k + 1.0) * features)) for k in range(_OUTPUTS)]
            gradients = [tape.gradient(output, filters) for output in outputs]
            return tf.add_n([tf.reduce_sum(tf.square(part)) for parts in gradients for part in parts])

        for way, jit in (("graph", False), ("XLA", True)):
            candidates: dict[str, Callable[[], Any]] = {}
            for direction, function in (("forward", run), ("backward", backward)):
                if title == "groups" and direction == "backward":
                    continue  # TensorFlow has none on a CPU, and XLA's takes a hundred times as long
                compiled = tf.function(function, jit_compile=jit, autograph=False)
                candidates[direction] = lambda compiled=compiled: compiled(x, filters)
            times = measure_milliseconds(candidates)
            rows[f"{title}, {way}"] = [
                None if ms is None else ms / genomes for ms in (times.get("forward"), times.get("backward"))
            ]
    print_table(f"{genomes} genomes, {_PICTURES} pictures", ["forward", "backward"], rows)


def _convolve_patches(x: Tensor, filters: list[Tensor]) -> Tensor:
    for (window, stride, _), kernels in zip(_CONVOLUTIONS, filters, strict=True):
        patches = extract_patches(x, (window, window), (stride, stride), (1, 1), "same")
        rows = tf.reshape(patches, [patches.shape[0], -1, patches.shape[-1]])
        z = tf.matmul(rows, tf.reshape(kernels, [kernels.shape[0], -1, _MAPS]))
        x = tf.nn.selu(tf.reshape(z, [z.shape[0], *patches.shape[1:-1], _MAPS]))
    return tf.reduce_mean(x, [2, 3])


def _convolve_in_groups(x: Tensor, filters: list[Tensor]) -> Tensor:
    genomes = filters[0].shape[0]
    x = tf.repeat(x[0], genomes, axis=-1)
    for (window, stride, _), kernels in zip(_CONVOLUTIONS, filters, strict=True):
        wide = tf.reshape(tf.transpose(kernels, [1, 2, 3, 0, 4]), [window, window, kernels.shape[-2], -1])
        x = tf.nn.selu(tf.nn.conv2d(x, wide, stride, "SAME"))
    return tf.transpose(tf.reshape(tf.reduce_mean(x, [1, 2]), [-1, genomes, _MAPS]), [1, 0, 2])


def _convolve_lane_by_lane(x: Tensor, filters: list[Tensor]) -> Tensor:
    features = []
    for lane in zip(*map(tf.unstack, filters), strict=True):
        maps = x[0]
        for (_, stride, _), kernel in zip(_CONVOLUTIONS, lane, strict=True):
            maps = tf.nn.selu(tf.nn.conv2d(maps, kernel, stride, "SAME"))
        features.append(tf.reduce_mean(maps, [1, 2]))
    return tf.stack(features)


def benchmark_functional_calls(genomes: int = 256) -> None:
    """Calls of `tfsm.functional` by the number of genomes, and `tfsm.mutate` of one model.

    A network of 8-8-8-1 units and 16 experiences. Everything is compiled before it is timed.
    """
    counts, done = sorted({1, 32, genomes}), tf.constant(0)
    layers = [keras.layers.Dense(8, "tanh") for _ in range(3)]
    model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(1)])
    x = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    batches = {count: tfsm.functional.initial(model, count) for count in counts}
    calls = {
        **{
            f"`mutate`, {name}": (lambda batch, name=name: tfsm.functional.mutate(model, batch, x, name, 0.01))
            for name in ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
        },
        "`sensitivity`": lambda batch: tfsm.functional.sensitivity(model, batch, x),
        "`divergence`": lambda batch: tfsm.functional.divergence(model, batch, batch, x),
        "`outputs`": lambda batch: tfsm.functional.outputs(model, batch, x),
    }
    rows = {}
    for title, call in calls.items():
        candidates = {str(n): lambda batch=batch, call=call: (call(batch), done)[1] for n, batch in batches.items()}
        rows[title] = list(measure_milliseconds(candidates).values())
    print_table("tfsm.functional", [f"{count} genome{'s' * (count > 1)}" for count in counts], rows)
    alone = measure_milliseconds({"mutate": lambda: (tfsm.mutate(model, x, "sm-g-abs"), done)[1]})["mutate"]
    print(f"\ntfsm.mutate, sm-g-abs, one model, not compiled: {alone:.0f} ms")


def benchmark_vector_mazes(genomes: int = 16) -> None:
    """A step of the mazes as Gymnasium vector environments: all agents at once, and one after another.

    Random actions; milliseconds per step of all agents. Needs gymnasium.
    """
    import gymnasium

    import tfsm_domains.envs

    gymnasium.register_envs(tfsm_domains.envs)
    counts, done = sorted({1, 4, genomes}), tf.constant(0)

    def make_step(name: str, count: int, mode: str) -> Callable[[], Any]:
        envs = gymnasium.make_vec(name, num_envs=count, vectorization_mode=mode)
        envs.reset(seed=0)
        envs.action_space.seed(0)
        actions = envs.action_space.sample()
        return lambda: (envs.step(actions), done)[1]

    rows: dict[str, list[float | None]] = {}
    modes = {"one by one": "sync", "at once": "vector_entry_point"}
    for name in ("HardMaze", "TopdownMaze", "FirstPersonMaze"):
        times = [
            measure_milliseconds({title: make_step(f"tfsm/{name}-v0", count, mode) for title, mode in modes.items()})
            for count in counts
        ]
        for title in modes:
            rows[f"{name}, {title}"] = [column[title] for column in times]
    print_table("a step of all agents", [str(count) for count in counts], rows)


def benchmark_repeated_layers(genomes: int = 20) -> None:
    """Equal layers one by one or in a loop: compiling and a roll-out of the networks of the large hard mazes."""
    rows = {}
    for layers, units in ((32, 125), (101, 48)):
        network = Network(residual_network(layers, units))
        weights = tf.constant(np.repeat(network.genome[None], genomes, axis=0))
        observation = tf.random.stateless_uniform([genomes, 1, SENSORS], [1, 2])

        def one_by_one(weights: Tensor, observation: Tensor, network: Network = network) -> Tensor:
            return _roll_out(network.bind(weights), observation)

        def in_a_loop(weights: Tensor, observation: Tensor, layers: int = layers, units: int = units) -> Tensor:
            return _roll_out(_bind_in_a_loop(weights, layers, units), observation)

        ways = {"one by one": one_by_one, "in a loop": in_a_loop}
        compiled = {name: tf.function(way, jit_compile=True, autograph=False) for name, way in ways.items()}
        seconds, outputs = {}, {}
        for name, call in compiled.items():
            start = time.perf_counter()
            outputs[name] = call(weights, observation).numpy()
            seconds[name] = 1e3 * (time.perf_counter() - start)
        np.testing.assert_array_equal(outputs["one by one"], outputs["in a loop"])
        calls = {name: functools.partial(call, weights, observation) for name, call in compiled.items()}
        times = measure_milliseconds(calls)
        for name in ways:
            rows[f"{layers} layers of {units} units, {name}"] = [seconds[name], times[name]]
    print_table(f"{genomes} genomes", ["first call", "roll-out"], rows)


def _roll_out(rows: Callable[[Tensor], Tensor], observation: Tensor, steps: int = 134) -> Tensor:
    def step(i: Tensor, observation: Tensor, total: Tensor) -> tuple[Tensor, ...]:
        outputs = rows(observation)[:, 0]
        return i + 1, 0.9 * observation + 0.01 * outputs[:, None, :1], total + outputs

    start = (tf.constant(0), observation, tf.zeros([observation.shape[0], 2]))
    return tf.while_loop(lambda i, *_: i < steps, step, start)[2]


def _bind_in_a_loop(weights: Tensor, layers: int, units: int) -> Callable[[Tensor], Tensor]:
    """Return the outputs of the residual network as a function of observations, with a loop over blocks of layers."""
    genomes, blocks, size = weights.shape[0], layers // BLOCK, units * units + units
    first = SENSORS * units
    entry, entry_bias = (
        tf.reshape(weights[:, :first], [genomes, SENSORS, units]),
        weights[:, None, first : first + units],
    )
    hidden = tf.reshape(weights[:, first + units :][:, : layers * size], [genomes, layers, size])
    kernels = tf.transpose(tf.reshape(hidden[..., :-units], [genomes, layers, units, units]), [1, 0, 2, 3])
    biases = tf.transpose(hidden[..., None, -units:], [1, 0, 2, 3])
    last = weights[:, -(2 * units + 2) :]
    head, head_bias = tf.reshape(last[:, :-2], [genomes, units, 2]), last[:, None, -2:]

    def rows(observation: Tensor) -> Tensor:
        value = tf.tanh(tf.matmul(observation, entry) + entry_bias)

        def run_block(i: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            skipped = value
            for j in range(BLOCK):
                value = tf.tanh(tf.matmul(value, kernels[BLOCK * i + j]) + biases[BLOCK * i + j])
            return i + 1, value + skipped

        _, value = tf.while_loop(lambda i, _: i < blocks, run_block, (tf.constant(0), value))
        for j in range(blocks * BLOCK, layers):
            value = tf.tanh(tf.matmul(value, kernels[j]) + biases[j])
        return tf.sigmoid(tf.matmul(value, head) + head_bias)

    return rows


def measure_milliseconds(candidates: Mapping[str, Callable[[], Any]]) -> dict[str, float | None]:
    """Return the time of one call of each candidate, or None if TensorFlow cannot compile it.

    Args:
        candidates: functions without arguments that return a tensor.
    """
    working: dict[str, Callable[[], Any]] = {}
    for name, call in candidates.items():
        try:
            call()
            working[name] = call
        except tf.errors.OpError as error:
            text = " ".join(str(error).split())
            print(f"{name}: {shorten(text.partition('XLA_CPU_JIT: ')[2] or text, 160, placeholder=' ...')}")
    best = dict.fromkeys(working, float("inf"))
    # In turns, so that other load on the machine affects all alike.
    for _ in range(ROUNDS):
        for name, call in working.items():
            best[name] = min(best[name], _measure_minimum(call))
    return {name: 1e3 * best[name] if name in best else None for name in candidates}


def _measure_minimum(call: Callable[[], Any]) -> float:
    minimum, end = float("inf"), time.perf_counter() + ROUND_SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call().numpy()
        minimum = min(minimum, time.perf_counter() - start)
    return minimum


def print_table(title: str, columns: list[str], rows: Mapping[str, list[float | None]]) -> None:
    """Print times in milliseconds as a Markdown table."""
    print(f"\n| {title} | {' | '.join(columns)} |")
    print(f"|---|{'---|' * len(columns)}")
    for name, times in rows.items():
        cells = ["does not compile" if ms is None else f"{ms:.2f} ms" for ms in times]
        print(f"| {name} | {' | '.join(cells)} |")


BENCHMARKS: dict[str, Callable[..., None]] = {
    "noise": benchmark_noise,
    "batched_forward": benchmark_batched_forward,
    "layer_rules": benchmark_layer_rules,
    "convolutions": benchmark_convolutions,
    "functional_calls": benchmark_functional_calls,
    "vector_mazes": benchmark_vector_mazes,
    "repeated_layers": benchmark_repeated_layers,
}


def main() -> None:
    listing = "\n".join(f"  {name}: {(run.__doc__ or '').splitlines()[0]}" for name, run in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.microbenchmarks",
        description=__doc__,
        epilog=f"names:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=BENCHMARKS)
    parser.add_argument("genomes", type=int, nargs="?", help="the number of genomes, or of agents")
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    BENCHMARKS[arguments.name](*([] if arguments.genomes is None else [arguments.genomes]))


if __name__ == "__main__":
    main()
