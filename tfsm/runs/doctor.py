"""Diagnose a run without running it: how it is compiled, which layers fall back, and how much memory it takes."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

import tensorflow as tf

from tfsm.evolution.compile_plan import find_limits
from tfsm.evolution.engine import Engine
from tfsm.models.genome import find_sections
from tfsm.models.network import Network
from tfsm.models.program import LayerPlan
from tfsm.runs.checkpoints import estimate_disk
from tfsm.utils.tf_startup import THREADS
from tfsm_plugins.mutations.gradient import SafeMutationSum

_MIB = 2**20
_GIB = 2**30


@dataclass(frozen=True)
class LayerDiagnosis:
    """How one layer runs."""

    name: str
    kind: str
    weights: int
    """Number of weights that are mutated."""
    way: str
    """`native`, `folded` or `mapped`; see docs/contributing/engine.md."""
    per_experience: str
    """How SM-G-ABS computes per-example gradients."""
    why: str


@dataclass(frozen=True)
class ModelDiagnosis:
    """How a model's layers run, whatever it is used for."""

    model: str
    weights: int
    mutated: int
    outputs: int | None
    """Numbers that the model returns for one input; None if that is unknown before it runs."""
    probes: int
    """Random probes by which sensitivities are estimated by default; 0 if they are exact."""
    layers: tuple[LayerDiagnosis, ...]
    slow: tuple[str, ...]

    def facts(self) -> list[tuple[str, str]]:
        """Return names and descriptions for a table."""
        outputs = "unknown" if self.outputs is None else f"{self.outputs:,}"
        passes = f"{self.probes} probes" if self.probes else f"{outputs} outputs, exactly"
        copies = 4 * self.mutated / _MIB
        return [
            ("model", self.model),
            ("weights", f"{self.weights:,}, of which {self.mutated:,} are mutated"),
            ("outputs", f"{outputs} per input"),
            ("cost of a child", f"sm-g-sum, sm-g-abs, sm-g-rms: a backward pass for each of {passes}"),
            ("", "sm-g-so: about three backward passes; sm-r, control: none"),
            ("", "and with a divergence, a forward pass for the parent and mostly two to four for the search"),
            ("memory", f"{copies:,.1f} MiB per copy of the weights, of which a child takes about six"),
        ]

    def notes(self) -> list[str]:
        """Return further messages for the user."""
        return []


@dataclass(frozen=True)
class RunDiagnosis:
    """Everything that determines the speed of a run."""

    weights: int
    compile: str
    why: str
    evaluation: str
    runs_at_once: int
    lanes: tuple[int, ...]
    """The widths of a batch as runs end."""
    operator: str
    """Whether the parents of all runs are mutated at once."""
    sensitivities: str
    offspring: str
    """How many children a run makes at once."""
    memory_mib: float
    """Memory of the runs in lock step, mostly their populations."""
    limits: str
    """What one run has room for, within the memory budget of the engine."""
    disk_mib: float
    """What checkpoints take at most, in this process."""
    cores: int
    threads: str
    """Threads per operation."""
    layers: tuple[LayerDiagnosis, ...]
    slow: tuple[str, ...]
    """A description of each fallback."""
    note: str

    def facts(self) -> list[tuple[str, str]]:
        """Return names and descriptions for a table."""
        lanes = " > ".join(str(width) for width in self.lanes) + (" as runs end" if len(self.lanes) > 1 else "")
        return [
            ("weights", f"{self.weights:,}"),
            ("compiled", f"{self.compile}: {self.why}"),
            ("evaluation", self.evaluation),
            ("runs at once", f"{self.runs_at_once}, in batches of {lanes}"),
            ("mutation", self.operator),
            ("sensitivities", self.sensitivities),
            ("memory", f"{self.memory_mib:,.1f} MiB for populations and their state"),
            ("room", f"within engine.memory: {self.limits}"),
            ("disk", f"up to {self.disk_mib:,.1f} MiB for checkpoints"),
            ("offspring", self.offspring),
            ("cores", str(self.cores)),
            ("threads", self.threads),
        ]

    def notes(self) -> list[str]:
        """Return further messages for the user."""
        return [f"note: {self.note}"] if self.note else []


def diagnose_model(network: Network) -> ModelDiagnosis:
    """Diagnose a network."""
    model = network.origin
    return ModelDiagnosis(
        model=f"{model.name} ({type(model).__name__})",
        weights=model.count_params(),
        mutated=network.size,
        outputs=network.output_size,
        probes=SafeMutationSum().probe_count(network),
        layers=_layers(network),
        slow=(*_one_by_one(network.program.layers), *_copies(network)),
    )


def diagnose_run(engine: Engine, memory: float) -> RunDiagnosis:
    """Diagnose an engine that has not run yet.

    Args:
        engine: the engine.
        memory: the memory budget of the engine in GiB.
    """
    plan, program = engine.plan, engine.network.program
    experience = engine.state.experience
    limits = find_limits(
        memory * _GIB,
        population=engine.state.population,
        weights=engine.network.size,
        weight_bytes=engine.network.dtype.size,
        experience_bytes=sum(v.shape[2:].num_elements() * v.dtype.size for v in tf.nest.flatten(experience)),
    )
    slow = _one_by_one(program.layers)
    if engine.uses_per_example_gradients:
        slow += _copies(engine.network)
    if not engine.compiled_domain:
        slow.append("the domain is plain Python: every step of the loop waits for it")
    if not plan.jit and not _mapped(program.layers) and not program.convolutional:
        slow.append(f"no XLA: {plan.why}")
    return RunDiagnosis(
        weights=engine.network.size,
        compile="xla" if plan.jit else "graph",
        why=plan.why,
        evaluation="compiled with the loop" if engine.compiled_domain else "called from the loop, one step at a time",
        runs_at_once=plan.runs,
        lanes=plan.widths(),
        operator="one run after another" if plan.one_by_one else "all runs at once",
        sensitivities="cached for a parent's next child" if engine.reuses_sensitivities else "measured for every child",
        offspring=_offspring(engine),
        memory_mib=engine.state.size_bytes / _MIB,
        limits=str(limits),
        disk_mib=estimate_disk(plan, plan.runs, side_by_side=False) / _MIB,
        cores=os.cpu_count() or 1,
        threads=_threads(),
        layers=_layers(engine.network),
        slow=tuple(slow),
        note=plan.note,
    )


def _offspring(engine: Engine) -> str:
    size, generation = engine.batches.size, engine.batches.generation
    if size == 1:
        return "one child at a time"
    return f"{size} children at once" + (f", of {generation} per generation" if generation is not None else "")


def _threads() -> str:
    threads = tf.config.threading.get_intra_op_parallelism_threads() or int(os.environ.get(THREADS, 0))
    return f"{threads} per operation" if threads else "one per core"


def _mapped(plans: tuple[LayerPlan, ...]) -> list[LayerPlan]:
    return [plan for plan in plans if plan.mode == "mapped"]


def _one_by_one(plans: tuple[LayerPlan, ...]) -> list[str]:
    return [f"{plan.name} ({plan.kind}) runs one genome after another: {plan.reason}" for plan in _mapped(plans)]


def _copies(network: Network) -> list[str]:
    if network.program.has_per_example_gradients:
        return []
    names = ", ".join(plan.name for plan in network.program.layers if not plan.has_per_example_gradients)
    return [f"sm-g-abs copies the weights for each experience, because of {names}"]


def _layers(network: Network) -> tuple[LayerDiagnosis, ...]:
    if network.program.whole_model_reason:
        return tuple(_layer(plan, network.size) for plan in network.program.layers)
    sizes: Counter[str] = Counter()
    for section in find_sections(network.model):
        sizes[section.path.rpartition("/")[2]] += section.size
    return tuple(_layer(plan, sizes[plan.name]) for plan in network.program.layers)


def _layer(plan: LayerPlan, weights: int) -> LayerDiagnosis:
    by = "by products" if plan.has_per_example_gradients else "by copies"
    per_experience = "nothing to mutate" if plan.mode == "folded" else by
    return LayerDiagnosis(plan.name, plan.kind, weights, plan.mode, per_experience, plan.reason)
