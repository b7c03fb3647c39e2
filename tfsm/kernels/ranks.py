"""Kernels are written for `[B, P]`; this lets them take a single genome `[P]` as well."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol

import tensorflow as tf

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.frames import Frames

Rest = ParamSpec("Rest")

Size = Callable[[Tensor], Tensor]
"""How large gradients are, element by element: `tf.abs` or `tf.square`."""
Summed = Callable[[Sequence[Tensor], Size], Tensor]
"""From the gradients with respect to deltas, and a size, to the sum over inputs of gradients' sizes `[B, P]`."""


class Rows(Protocol):
    """What a kernel needs of a network."""

    def rows(self, genomes: Tensor, inputs: Nest) -> Tensor:
        """Return output rows `[B, I, K]` of genomes `[B, P]`."""
        ...

    def rows_each(self, genomes: Tensor, inputs: Nest) -> Tensor:
        """Return `[B * N, R, K]` for genomes `[B * N, P]`, each of which sees one input."""
        ...

    @property
    def tapped(self) -> bool:
        """Whether `rows_tapped` can be had."""
        ...

    def rows_tapped(
        self, genomes: Tensor, inputs: Nest, watch: Callable[[Tensor], None]
    ) -> tuple[Tensor, list[Tensor], Summed]:
        """Return rows `[B, I, K]`, deltas, and a function from their gradients to sums of sizes `[B, P]`."""
        ...


Kernel = Callable[Concatenate[Rows, Tensor, Nest, Rest], Tensor]


def either_rank(kernel: Kernel[Rest]) -> Kernel[Rest]:
    """Let a kernel of genomes `[B, P]` and inputs `[B, N, ...]` take `[P]` and `[N, ...]` too."""

    @tf.autograph.experimental.do_not_convert
    @functools.wraps(kernel)
    def wrapped(network: Rows, genomes: Tensor, inputs: Nest, *args: Rest.args, **kwargs: Rest.kwargs) -> Tensor:
        if genomes.shape.rank > 1:
            return kernel(network, genomes, inputs, *args, **kwargs)
        wide: tuple[Any, ...] = tf.nest.map_structure(lambda x: x[None] if tf.is_tensor(x) else x, args)
        return kernel(network, genomes[None], alone(inputs), *wide, **kwargs)[0]

    return wrapped


def alone(inputs: Nest) -> Nest:
    """Return inputs `[N, ...]` of one genome as those of a batch of one."""
    return tf.nest.map_structure(lambda x: Frames(x.table, x.index[None]) if isinstance(x, Frames) else x[None], inputs)
