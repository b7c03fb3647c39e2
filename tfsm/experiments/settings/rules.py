"""What settings must fulfil together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tfsm.errors import TfsmError
from tfsm.evolution.cadence import parse_every
from tfsm.experiments.settings.layers import Layer
from tfsm.models.names import check_name, is_builder
from tfsm.models.patterns import parse_patterns
from tfsm.registry import Entry


def fixed_population(entry: Entry) -> int | None:
    """Return the only population that a selection scheme works with, which its options may declare.

    They do with `population: ClassVar[int]`, because to read it from the scheme would import TensorFlow.
    """
    if entry.options is None or any(field.name == "population" for field in fields(entry.options)):
        return None
    size = getattr(entry.options, "population", None)
    return size if isinstance(size, int) else None


def fit_population(run: dict[str, object], sources: dict[str, str], layer: Layer, selection: Entry) -> None:
    """Give a scheme the population that it needs, unless the user asked for another."""
    size = fixed_population(selection)
    if size is None or run["population"] == size:
        return
    if "population" in layer and layer["population"].users:
        raise TfsmError(
            f"population={run['population']} ({sources['population']}): selection {selection.name!r} "
            f"({sources['selection']}) needs a population of {size}; leave population out or choose another selection"
        )
    run["population"] = size
    sources["population"] = f"{selection.name} keeps {'one champion' if size == 1 else f'a population of {size}'}"


def start_from_file(run: dict[str, object], sources: dict[str, str], layer: Layer) -> None:
    """Let everybody start from a model file's weights, unless the user asked for something else."""
    name = run["model"]
    if isinstance(name, str) and not is_builder(name) and not ("init" in layer and layer["init"].users):
        run["init"], sources["init"] = "model", "the model comes with weights"


def check_model_settings(run: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Raise a `TfsmError` for a model file that cannot be, or layers that are not told in a way to be understood."""
    parse_patterns(run["mutated_layers"])
    if run["model"] is not None:
        check_name(run["model"], trust=run["trust_model"])
    elif run["trust_model"]:
        raise TfsmError(f"trust_model ({sources['trust_model']}): there is no model file to trust; name one by --model")


def check_adaptation(run: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Raise a `TfsmError` where a wanted divergence is missing, or of no use."""
    wanted = run["target_divergence"]
    if run["adapt"] == "divergence" and wanted is None:
        raise TfsmError(
            f"adapt=divergence ({sources['adapt']}): to which divergence? Give target_divergence, such as 0.01"
        )
    if run["adapt"] != "divergence" and wanted is not None:
        raise TfsmError(
            f"target_divergence={wanted:g} ({sources['target_divergence']}) is for adapt = divergence, and adapt is "
            f"{run['adapt']}"
        )


def check_together(
    run: Mapping[str, Any], sources: Mapping[str, str], selection: Entry, options: Mapping[str, object]
) -> None:
    """Raise a `TfsmError` where settings that are right by themselves contradict each other."""
    parse_every(str(run["checkpoint_every"]))
    population, evaluations, size = run["population"], run["evaluations"], options.get("size")
    origin = f"population: {sources['population']}"
    if isinstance(size, int) and size > population:
        where = sources["selection_options.size"]
        message = f"{selection.name} size {size} is larger than the population of {population}"
        raise TfsmError(f"{message} (size: {where}; {origin})")
    if evaluations < population:
        where = sources["evaluations"]
        message = f"evaluations ({evaluations}) is smaller than the population ({population})"
        raise TfsmError(f"{message}: the initial population itself is counted (evaluations: {where}; {origin})")
