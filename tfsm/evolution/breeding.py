"""What the engine's functions hand to one another about parents and children of `W` runs."""

from __future__ import annotations

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
