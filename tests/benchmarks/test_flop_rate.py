"""Floating-point operations agree with counts by hand."""

from __future__ import annotations

import pytest

from benchmarks.flop_rate import (
    Product,
    count_backward_flops,
    count_forward_flops,
    count_sum_flops,
    list_backward_products,
    list_products,
)


def test_flops_of_a_dense_network_are_counted_by_hand() -> None:
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5), keras.layers.Dense(2)])
    each = list_products(model, experiences=7)
    assert count_forward_flops(each) == 2 * 7 * (3 * 5 + 5 * 2)
    # The gradients of both kernels, and the gradient through the second layer.
    assert count_backward_flops(each) == 2 * 7 * (3 * 5 + 2 * 5 * 2)
    assert count_sum_flops(each, 2) == count_forward_flops(each) + 2 * count_backward_flops(each)


def test_flops_of_the_parity_network_are_counted_by_hand() -> None:
    from tfsm_domains.parity.parity import Parity

    times, units = 4, 20
    layers = times * (1 * units + units * units) + times * (units * units + units * units) + units * 2
    assert count_forward_flops(list_products(Parity().network(), 16)) == 2 * 16 * layers


def test_backward_products_have_the_flops_of_a_backward_pass() -> None:
    each = [Product(7, 3, 5, reads_data=True), Product(7, 5, 2, times=4)]
    assert count_forward_flops(list_backward_products(each)) == count_backward_flops(each)


def test_a_layer_that_cannot_be_counted_is_named() -> None:
    import keras

    model = keras.Sequential([keras.Input((3,)), keras.layers.LayerNormalization()])
    with pytest.raises(ValueError, match="LayerNormalization"):
        list_products(model, 1)
