"""What a run would do, found out without running it: how it is compiled, what falls back, and what memory it takes."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

from tfsm.evolution.engine import Engine
from tfsm.models.program import Path

_MIB = 2**20


@dataclass(frozen=True)
class Layer:
    """How one layer runs."""

    name: str
    kind: str
    way: str
    per_experience: str
    """How SM-G-ABS gets at the gradients of single experiences."""
    why: str


@dataclass(frozen=True)
class Diagnosis:
    """Everything that decides the speed of a run."""

    weights: int
    compile: str
    why: str
    evaluation: str
    runs_at_once: int
    lanes: tuple[int, ...]
    """The widths that a batch may have, as runs end."""
    operator: str
    """How many runs' parents are mutated at once."""
    sensitivities: str
    memory_mib: float
    """What the runs in lock step keep, populations and all."""
    cores: int
    layers: tuple[Layer, ...]
    slow: tuple[str, ...]
    """Every fallback, in words."""
    note: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)


def diagnose(engine: Engine) -> Diagnosis:
    """Look at an engine that has not run yet."""
    plan, program = engine.plan, engine.network.program
    slow = [f"{path.layer} ({path.kind}) runs one genome after another: {path.why}" for path in _mapped(program.paths)]
    if engine.measures_each and not program.tapped:
        names = ", ".join(path.layer for path in program.paths if not path.tapped)
        slow.append(f"sm-g-abs copies the weights for each experience, because of {names}")
    if not engine.compiled_domain:
        slow.append("the domain is plain Python: every step of the loop waits for it")
    if not plan.jit and not _mapped(program.paths) and not program.convolutional:
        slow.append(f"no XLA: {plan.why}")
    return Diagnosis(
        weights=engine.network.size,
        compile="xla" if plan.jit else "graph",
        why=plan.why,
        evaluation="compiled with the loop" if engine.compiled_domain else "called from the loop, one step at a time",
        runs_at_once=plan.runs,
        lanes=plan.widths(),
        operator="one run after another" if plan.one_by_one else "all runs at once",
        sensitivities="kept for a parent's next child" if engine.reuses else "measured for every child",
        memory_mib=engine.state.size_bytes / _MIB,
        cores=os.cpu_count() or 1,
        layers=tuple(_layer(path) for path in program.paths),
        slow=tuple(slow),
        note=plan.note,
    )


def _mapped(paths: tuple[Path, ...]) -> list[Path]:
    return [path for path in paths if path.way == "mapped"]


def _layer(path: Path) -> Layer:
    by = "by products" if path.tapped else "by copies"
    per_experience = "no weights" if path.way == "folded" else by
    return Layer(path.layer, path.kind, path.way, per_experience, path.why)
