"""Part (e): floating-point rate compared with plain matrix products of the same shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from benchmarks.cases import Compiled, NetworkCase, make_million_case, make_parity_case, make_selu_case
from benchmarks.measure import Effort, Timing, compute_rate, compute_ratio, interleave, require_timing
from benchmarks.results import BenchmarkTable
from tfsm.kernels.sensitivity import sum_sensitivity

LARGE = 768
NOTES = [
    "GFLOP/s on one core. Operations are counted from the shapes of the matrix products; activations are not counted.",
    "'products': only matrix products of the same shapes, batched over the same genomes, on random numbers; the faster "
    "of XLA and a plain graph.",
    "'the other way': the same function compiled as a plain graph instead of with XLA, or the reverse.",
    f"'large product': one product of {LARGE} x {LARGE} matrices, the most that this core can do.",
]


def run(effort: Effort) -> list[BenchmarkTable]:
    table = BenchmarkTable("flop_rate", "(e) floating-point rate, GFLOP/s", notes=NOTES)
    cases = [make_selu_case] if effort.quick else [make_selu_case, make_parity_case, make_million_case]
    for make in cases:
        table.rows += measure_case(make(), effort)
    return [table]


def measure_case(case: NetworkCase, effort: Effort) -> list[dict[str, object]]:
    forward = list_products(case.model, len(case.experience))
    functions = {
        "forward": (lambda parents: case.network.rows(parents, case.inputs), forward, count_forward_flops(forward)),
        "SM-G-SUM's sensitivity": (
            lambda parents: sum_sensitivity(case.network, parents, case.inputs),
            forward + case.outputs * list_backward_products(forward),
            count_sum_flops(forward, case.outputs),
        ),
    }
    large = make_products_call([Product(LARGE, LARGE, LARGE)], 1, jit=False)
    rows: list[dict[str, object]] = []
    for name, (function, products, flops) in functions.items():
        tfsm, other = case.compile(function), case.compile(function, jit=not case.jit)
        ways = {f"products {jit}": make_products_call(products, case.genomes, jit=jit) for jit in (True, False)}
        results = interleave({"tfsm": tfsm, "other": other, **ways, "large": large}, effort)
        times = {side: timing.seconds for side, timing in results.items() if isinstance(timing, Timing)}
        best = min((way for way in ways if way in times), key=lambda way: min(times[way]))
        work = flops * case.genomes / 1e9
        rows.append(
            {
                "network": case.name,
                "genomes": case.genomes,
                "what": name,
                "MFLOP a genome": flops / 1e6,
                "tfsm": compute_rate(require_timing(results, "tfsm").seconds, work),
                "compile": "XLA" if case.jit else "graph",
                "the other way": compute_rate(times["other"], work) if "other" in times else None,
                "products": compute_rate(times[best], work),
                "products by": "XLA" if best == "products True" else "graph",
                "large product": compute_rate(times["large"], 2e-9 * LARGE**3),
                "of products": compute_ratio(times[best], times["tfsm"]),
            }
        )
    return rows


def make_products_call(products: Sequence[Product], genomes: int, *, jit: bool) -> Compiled:
    """Return a call that computes only these products, batching those of the same shape."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for product in products:
        counts[product.rows, product.inner, product.columns] += product.times * genomes
    generator = tf.random.Generator.from_seed(1)
    left = [generator.normal([n, rows, inner]) for (rows, inner, _), n in counts.items()]
    right = [generator.normal([n, inner, columns]) for (_, inner, columns), n in counts.items()]

    @tf.function(jit_compile=jit, autograph=False)
    def multiply(a: list[tf.Tensor], b: list[tf.Tensor]) -> list[tf.Tensor]:
        return [tf.matmul(x, y) for x, y in zip(a, b, strict=True)]

    return lambda: multiply(left, right)[0].numpy()


class Product(NamedTuple):
    """A matrix product `[rows, inner] x [inner, columns]`, repeated `times` times in sequence."""

    rows: int
    inner: int
    columns: int
    times: int = 1
    reads_data: bool = False
    """Whether its left side is data, so that no gradient flows any further."""

    @property
    def flops(self) -> int:
        """A multiplication and an addition per triple."""
        return 2 * self.rows * self.inner * self.columns * self.times


def list_products(model: Any, experiences: int) -> list[Product]:
    """List the products of a forward pass of one genome of a Sequential model of Dense and SimpleRNN layers."""
    products: list[Product] = []
    times = model.input_shape[1] if len(model.input_shape) == 3 else 1
    for layer in model.layers:
        is_first = not products
        kind = type(layer).__name__
        if kind == "Dense":
            inner, columns = layer.kernel.shape
            products.append(Product(experiences, inner, columns, reads_data=is_first))
        elif kind == "SimpleRNN":
            inner, units = layer.cell.kernel.shape
            products.append(Product(experiences * times, inner, units, reads_data=is_first))
            products.append(Product(experiences, units, units, times))
        else:
            raise ValueError(f"cannot count the operations of a layer of class {kind}")
    return products


def count_forward_flops(products: Sequence[Product]) -> int:
    """Return the operations of one forward pass."""
    return sum(product.flops for product in products)


def count_backward_flops(products: Sequence[Product]) -> int:
    """Return the operations of one backward pass: a product for the weights, and one for the inputs."""
    return sum(product.flops * (1 if product.reads_data else 2) for product in products)


def count_sum_flops(products: Sequence[Product], outputs: int) -> int:
    """Return the operations of SM-G-SUM's sensitivity: a forward pass, and one backward pass per output."""
    return count_forward_flops(products) + outputs * count_backward_flops(products)


def list_backward_products(products: Sequence[Product]) -> list[Product]:
    """List the products of one backward pass."""
    backward: list[Product] = []
    for rows, inner, columns, times, reads_data in products:
        backward.append(Product(inner, rows, columns, times))
        if not reads_data:
            backward.append(Product(rows, columns, inner, times))
    return backward
