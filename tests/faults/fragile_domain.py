"""A domain in plain Python that fails on demand, and a plugin that registers it; it is copied to a fake site.

The environment variable `FRAGILE` names a control file. While it exists, calls of `evaluate` fail. The file states in
JSON how (`kind`), at which call of a process (`at`) and how often (`times`). Without it the domain works.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tfsm import Evaluation, hookimpl

KINDS = {
    "raise": "raises an exception",
    "exit": "calls sys.exit(0)",
    "hang": "does not come back",
    "nan": "returns NaN",
    "inf": "returns infinities",
    "shape": "returns arrays of another shape",
    "count": "returns too few results",
    "structure": "returns experience of another structure",
    "type": "returns something else than an Evaluation",
    "die": "calls os._exit(3)",
    "segfault": "reads memory that is not its own",
    "memory": "has no memory left",
}
_HOURS = 10_000


@dataclass(frozen=True, kw_only=True)
class Fragile:
    """Find two numbers. `FRAGILE_PAUSE` makes it slow, so that tests have time to kill the process."""

    near: float = 0.05
    compiled: ClassVar[bool] = False
    behavior_names: ClassVar[tuple[str, ...]] = ("x", "y")
    calls: ClassVar[list[int]] = [0]
    """The number of calls of `evaluate` in this process."""

    def network(self) -> Any:
        import keras

        layers = [keras.Input((1,), name="one"), keras.layers.Dense(2, use_bias=False, name="numbers")]
        return keras.Sequential(layers, name="fragile")

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Any:
        values = np.asarray(genomes)
        error = ((values - np.array([0.7, -1.3], values.dtype)) ** 2).sum(axis=-1)
        found = Evaluation(-error, error < self.near, values, {"seen": values[:, None, :1]})
        time.sleep(float(os.environ.get("FRAGILE_PAUSE") or 0.0))
        return self._fail_if_planned(found)

    def observe(self, experience: Any) -> Any:
        return experience["seen"]

    def picture(self, evaluations: Any, behavior: Any) -> Any:
        return np.zeros((8, 8, 3), np.uint8)

    def _fail_if_planned(self, found: Any) -> Any:
        control_file = Path(os.environ.get("FRAGILE") or "nowhere")
        self.calls[0] += 1
        if not control_file.is_file():
            return found
        plan = json.loads(control_file.read_text(encoding="utf-8"))
        if not _is_due(plan, self.calls[0]):
            return found
        return _fail(plan["kind"], found)


def _is_due(plan: dict[str, Any], call: int) -> bool:
    # A plan holds for every worker, or with "once" for the first that reaches the call.
    if not plan["at"] <= call < plan["at"] + plan.get("times", 1):
        return False
    if plan.get("once"):
        try:
            os.close(os.open(plan["once"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
    return True


def _fail(kind: str, found: Any) -> Any:
    fitness = np.asarray(found.fitness)
    if kind in ("nan", "inf"):
        return found._replace(fitness=np.full_like(fitness, np.nan if kind == "nan" else np.inf))
    if kind == "shape":
        return found._replace(behavior=np.zeros((len(fitness), 5), np.float32))
    if kind == "count":
        return Evaluation(fitness[:0], found.solved[:0], found.behavior[:0], {"seen": found.experience["seen"][:0]})
    if kind == "structure":
        return found._replace(experience=(found.experience["seen"],) * 2)
    if kind == "type":
        return "a good one"
    _end(kind)
    raise ValueError("the simulator broke down\nand this is a second line")


def _end(kind: str) -> None:
    if kind == "exit":
        sys.exit(0)
    if kind == "hang":
        time.sleep(_HOURS)
    if kind == "die":
        os._exit(3)
    if kind == "segfault":
        ctypes.string_at(0)
    if kind == "memory":
        raise MemoryError


@hookimpl
def tfsm_register_domains(registry: Any) -> None:
    registry.add("fragile", f"{__name__}:Fragile", description="fails on demand")
