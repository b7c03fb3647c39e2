"""What the engine's functions hand to one another about parents and children of `W` runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tfsm.contracts import Child, Nest, Tensor


class Couple(NamedTuple):
    """Who breeds: places in the population, `[W]`."""

    parent: Tensor
    mate: Tensor
    """The second parent, for operators that recombine; else the same as the first."""


class Drawn(NamedTuple):
    """What a step begins with."""

    couple: Couple
    replaced: Tensor
    """`[W]`"""
    mutate_seed: Tensor
    """`[W, 2]`"""
    evaluate_seed: Tensor
    """`[W, 2]`"""


class Brood(NamedTuple):
    """Parents and their children."""

    parents: Tensor
    """`[W, P]`"""
    experience: Nest
    """What the parents saw, `[W, ...]`."""
    child: Child
    strength: Tensor
    """`[W]`: how many times the intensity they were made with."""


class Match(NamedTuple):
    """Who breeds, as whoever makes the children needs to know it."""

    parents: Tensor
    """`[W, P]`"""
    experience: Nest
    """What the parents saw, `[W, ...]`."""
    mates: tuple[Nest, ...]
    """Second parents `[W, P]` and what they saw, for an operator that recombines; else `()`."""
    strength: Tensor
    """`[W]`"""
    rivals: Tensor
    """`[W]`: the parents' fitness."""


class Offspring(NamedTuple):
    """Children, as whoever settles them needs to know them."""

    genomes: Tensor
    """`[W, P]`"""
    strength: Tensor
    """`[W]`: how many times the intensity they were made with."""
    rivals: Tensor
    """`[W]`: the fitness of their parents when these were chosen."""
    moved: Tensor
    """`[W]`: how far they moved the outputs, below 0 where nobody knows; `()` where intensities do not adapt to it."""
    diagnostics: Mapping[str, Tensor]
    """`[W]` each."""
