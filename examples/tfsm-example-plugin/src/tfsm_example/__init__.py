"""A plugin with one part of each kind: exclusive or, sparse noise, a selection scheme and an observer."""

from tfsm import hookimpl
from tfsm.plugins.registry import Registry

from tfsm_example.options import CsvOptions, RandomParentOptions, SparseNoiseOptions, XorOptions

tfsm_hooks = 2
"""The version of tfsm's plugin interface that this package was written for."""


@hookimpl
def tfsm_register_mutations(registry: Registry) -> None:
    """Register the operator."""
    registry.add(
        "sparse-noise",
        "tfsm_example.sparse_noise:SparseNoise",
        description="noise on a share of the weights",
        options=SparseNoiseOptions,
        intensity=0.5,
    )


@hookimpl
def tfsm_register_domains(registry: Registry) -> None:
    """Register the domain."""
    registry.add(
        "xor",
        "tfsm_example.xor:Xor",
        description="learn exclusive or",
        options=XorOptions,
        defaults={"population": 50, "evaluations": 5_000, "log_every": 250, "intensity": {"control": 0.5}},
    )


@hookimpl
def tfsm_register_selections(registry: Registry) -> None:
    """Register the selection scheme."""
    registry.add(
        "random-parent",
        "tfsm_example.random_parent:RandomParent",
        description="a random parent; the child replaces the worst individual",
        options=RandomParentOptions,
    )


@hookimpl
def tfsm_register_observers(registry: Registry) -> None:
    """Register the observer."""
    registry.add("csv", "tfsm_example.csv_table:CsvTable", description="a CSV table of the metrics", options=CsvOptions)
