"""Timing for the benchmarks: both sides in one run, in turns, and the least of many times for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from textwrap import shorten
from typing import Any

import tensorflow as tf

ROUNDS = 7
ROUND_SECONDS = 0.15


def one_core() -> None:
    """Keep TensorFlow to one thread; to be called before it does anything."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def milliseconds(candidates: Mapping[str, Callable[[], Any]]) -> dict[str, float | None]:
    """Return the time of one call of each candidate; None for one that TensorFlow cannot compile.

    Args:
        candidates: functions of no arguments that return a tensor.
    """
    working: dict[str, Callable[[], Any]] = {}
    for name, call in candidates.items():
        try:
            call()
            working[name] = call
        except tf.errors.OpError as error:
            print(f"{name}: {_reason(error)}")
    best = dict.fromkeys(working, float("inf"))
    # In turns, so that whatever else the machine does disturbs all alike.
    for _ in range(ROUNDS):
        for name, call in working.items():
            best[name] = min(best[name], _least(call))
    return {name: 1e3 * best[name] if name in best else None for name in candidates}


def table(title: str, columns: list[str], rows: Mapping[str, list[float | None]]) -> None:
    """Print times in milliseconds as a Markdown table."""
    print(f"\n| {title} | {' | '.join(columns)} |")
    print(f"|---|{'---|' * len(columns)}")
    for name, times in rows.items():
        cells = ["does not compile" if ms is None else f"{ms:.2f} ms" for ms in times]
        print(f"| {name} | {' | '.join(cells)} |")


def _least(call: Callable[[], Any]) -> float:
    least, end = float("inf"), time.perf_counter() + ROUND_SECONDS
    while time.perf_counter() < end:
        began = time.perf_counter()
        call().numpy()
        least = min(least, time.perf_counter() - began)
    return least


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return shorten(text.partition("XLA_CPU_JIT: ")[2] or text, 160, placeholder=" ...")
