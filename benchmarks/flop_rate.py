"""Part (e): how near the machine's limit: the floating-point rate beside plain matrix products of the same shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import tensorflow as tf

from benchmarks.arithmetic import rate, ratio
from benchmarks.cases import Case, Compiled, million_case, parity_case, selu_case
from benchmarks.flops import Product, backward_products, forward_flops, products, sum_flops
from benchmarks.measure import Effort, Timing, interleave, needed
from benchmarks.results import Table
from tfsm.kernels.sensitivity import sum_sensitivity

LARGE = 768
NOTES = [
    "GFLOP/s on one core. Operations are counted from the shapes of the matrix products; activations count nothing.",
    "'products': nothing but matrix products of the same shapes, batched over the same genomes, on random numbers; "
    "compiled with XLA and as a plain graph, the faster of the two.",
    "'the other way': the same function compiled as a plain graph instead of with XLA, or the reverse.",
    f"'large product': one product of {LARGE} x {LARGE} matrices, what this core can do at best.",
]


def run(effort: Effort) -> list[Table]:
    table = Table("flop_rate", "(e) floating-point rate, GFLOP/s", notes=NOTES)
    cases = [selu_case] if effort.quick else [selu_case, parity_case, million_case]
    for make in cases:
        table.rows += rows(make(), effort)
    return [table]


def rows(case: Case, effort: Effort) -> list[dict[str, object]]:
    forward = products(case.model, len(case.experience))
    both = {
        "forward": (lambda parents: case.network.rows(parents, case.seen), forward, forward_flops(forward)),
        "SM-G-SUM's sensitivity": (
            lambda parents: sum_sensitivity(case.network, parents, case.seen),
            forward + case.outputs * backward_products(forward),
            sum_flops(forward, case.outputs),
        ),
    }
    large = plain([Product(LARGE, LARGE, LARGE)], 1, jit=False)
    filled = []
    for what, (function, each, flops) in both.items():
        mine, other = case.compiled(function), case.compiled(function, jit=not case.jit)
        ways = {f"products {jit}": plain(each, case.genomes, jit=jit) for jit in (True, False)}
        found = interleave({"mine": mine, "other": other, **ways, "large": large}, effort)
        times = {name: timing.seconds for name, timing in found.items() if isinstance(timing, Timing)}
        best = min((name for name in ways if name in times), key=lambda name: min(times[name]))
        work = flops * case.genomes / 1e9
        filled.append(
            {
                "network": case.name,
                "genomes": case.genomes,
                "what": what,
                "MFLOP a genome": flops / 1e6,
                "tfsm": rate(needed(found, "mine").seconds, work),
                "compile": "XLA" if case.jit else "graph",
                "the other way": rate(times["other"], work) if "other" in times else None,
                "products": rate(times[best], work),
                "products by": "XLA" if best == "products True" else "graph",
                "large product": rate(times["large"], 2e-9 * LARGE**3),
                "of products": ratio(times[best], times["mine"]),
            }
        )
    return filled


def plain(each: Sequence[Product], genomes: int, *, jit: bool) -> Compiled:
    """Return a call that does these products and nothing else, those of one shape in one batch."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for product in each:
        counts[product.rows, product.inner, product.columns] += product.times * genomes
    generator = tf.random.Generator.from_seed(1)
    left = [generator.normal([n, rows, inner]) for (rows, inner, _), n in counts.items()]
    right = [generator.normal([n, inner, columns]) for (_, inner, columns), n in counts.items()]

    @tf.function(jit_compile=jit, autograph=False)
    def multiply(a: list[tf.Tensor], b: list[tf.Tensor]) -> list[tf.Tensor]:
        return [tf.matmul(x, y) for x, y in zip(a, b, strict=True)]

    return lambda: multiply(left, right)[0].numpy()
