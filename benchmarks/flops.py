"""Floating-point operations of a network's products, counted from shapes; activations and additions are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Product(NamedTuple):
    """A matrix product `[rows, inner] x [inner, columns]`, done `times` times one after another."""

    rows: int
    inner: int
    columns: int
    times: int = 1
    reads_data: bool = False
    """Whether its left side is data, so that no gradient has to flow any further."""

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each triple."""
        return 2 * self.rows * self.inner * self.columns * self.times


def products(model: Any, experiences: int) -> list[Product]:
    """List the products of one forward pass of one genome of a Sequential model of Dense and SimpleRNN layers."""
    found: list[Product] = []
    times = model.input_shape[1] if len(model.input_shape) == 3 else 1
    for layer in model.layers:
        first = not found
        kind = type(layer).__name__
        if kind == "Dense":
            inner, columns = layer.kernel.shape
            found.append(Product(experiences, inner, columns, reads_data=first))
        elif kind == "SimpleRNN":
            inner, units = layer.cell.kernel.shape
            found.append(Product(experiences * times, inner, units, reads_data=first))
            found.append(Product(experiences, units, units, times))
        else:
            raise ValueError(f"no count for a layer of class {kind}")
    return found


def forward_flops(each: Sequence[Product]) -> int:
    """Return the operations of one forward pass."""
    return sum(product.flops for product in each)


def backward_flops(each: Sequence[Product]) -> int:
    """Return the operations of one backward pass: a product for the weights, and one for what came before."""
    return sum(product.flops * (1 if product.reads_data else 2) for product in each)


def sum_flops(each: Sequence[Product], outputs: int) -> int:
    """Return the operations of SM-G-SUM's sensitivity: a forward pass, and a backward pass an output."""
    return forward_flops(each) + outputs * backward_flops(each)


def backward_products(each: Sequence[Product]) -> list[Product]:
    """List the products of one backward pass."""
    found: list[Product] = []
    for rows, inner, columns, times, reads_data in each:
        found.append(Product(inner, rows, columns, times))
        if not reads_data:
            found.append(Product(rows, columns, inner, times))
    return found
