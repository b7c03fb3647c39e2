"""How runs are compiled and how many share a batch."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from tfsm.evolution.compile_plan import Plan, make_plan
from tfsm.evolution.lockstep_loop import StepScheduler
from tfsm.models.network import Network

LAYERS = keras.layers


def plan(model: keras.Model, **options: Any) -> Plan:
    return make_plan(Network(model), **{"runs": 20, "population": 250} | options)


def dense() -> keras.Model:
    return keras.Sequential([keras.Input((3,)), LAYERS.Dense(4)])


@pytest.mark.parametrize(
    ("layers", "shape", "jit"),
    [
        ([LAYERS.Dense(4)], (3,), True),
        ([LAYERS.SimpleRNN(4)], (4, 1), True),
        ([LAYERS.SimpleRNN(4)], (40, 1), True),
        ([LAYERS.SimpleRNN(4)], (401, 1), False),
        ([LAYERS.SimpleRNN(4)], (None, 1), False),
        ([LAYERS.Conv2D(4, 3), LAYERS.GlobalAveragePooling2D()], (8, 8, 1), False),
        ([LAYERS.ConvLSTM2D(2, 3)], (4, 6, 6, 1), True),
        ([LAYERS.ConvLSTM2D(2, 3)], (20, 6, 6, 1), True),
        ([LAYERS.ConvLSTM2D(2, 3)], (65, 6, 6, 1), False),
        ([LAYERS.ConvLSTM2D(2, 3)], (None, 6, 6, 1), False),
        ([LAYERS.ConvLSTM2D(2, 3), LAYERS.Conv2D(2, 3)], (4, 6, 6, 1), False),
        ([LAYERS.LayerNormalization()], (3,), True),
        ([LAYERS.GRU(4, reset_after=False)], (4, 1), False),
    ],
)
def test_xla_is_used_where_every_layer_suits_it(layers: list[Any], shape: tuple[int | None, ...], jit: bool) -> None:
    found = plan(keras.Sequential([keras.Input(shape), *layers]))
    assert found.jit is jit
    assert found.why


def test_the_user_may_insist() -> None:
    assert plan(dense(), compile="graph").jit is False
    assert plan(dense(), compile="xla").jit is True


def test_a_lone_run_gets_a_companion_under_xla_only() -> None:
    assert plan(dense(), runs=1).width == 2
    assert plan(dense(), runs=1, compile="graph").width == 1


def test_the_width_shrinks_to_the_memory_with_a_note() -> None:
    million = keras.Sequential([keras.Input((1000,)), LAYERS.Dense(1000)])
    found = plan(million, population=100, memory=1.0)
    assert found.width == 2
    assert "2 of 20 runs at a time" in found.note
    assert plan(million, population=100, memory=100.0).note == ""
    assert plan(million, population=100, memory=100.0, experience_bytes=10**8).runs == 9
    assert "takes 0.37 GiB and engine.memory is 0.1 GiB" in plan(million, population=100, memory=0.1).note


def test_sensitivities_are_kept_where_one_run_has_room_for_them_whatever_the_number_of_runs() -> None:
    million = keras.Sequential([keras.Input((1000,)), LAYERS.Dense(1000)])
    for runs in (1, 20):
        assert plan(million, runs=runs, population=100, memory=4.0).reuse is False
        assert plan(million, runs=runs, population=100, memory=8.0).reuse is True
        assert plan(million, runs=runs, population=100, memory=8.0, reuse=False).reuse is False
    assert plan(million, population=100, memory=8.0).runs == 10, "they count as well"


def test_widths_halve_down_to_the_least() -> None:
    assert plan(dense()).widths() == (20, 10, 5, 3, 2)
    assert plan(dense(), runs=2).widths() == (2,)


def test_a_narrower_batch_must_pay_for_its_compilation() -> None:
    pace = StepScheduler((20, 10, 5))
    assert pace.width(20, 0, 1000) == 20
    pace.learn((False, 20), 1, 5.0)  # compiling
    pace.learn((False, 20), 10, 0.01)  # a millisecond a step
    assert pace.width(9, 1_000, 1_000) == 20, "half a second saved, ten spent"
    assert pace.width(9, 50_000, 50_000) == 10
    assert pace.width(9, 1_000, 1_000) == 10, "no way back while it suffices"
    assert pace.width(15, 1_000, 1_000) == 20, "the next group of runs is wide again"


def test_first_calls_are_compiling_and_later_ones_are_not() -> None:
    pace = StepScheduler((20, 10))
    for key, steps, seconds in (((True, 20), 1, 2.0), ((False, 20), 1, 5.0), ((False, 20), 8, 0.5)):
        pace.learn(key, steps, seconds)
    assert pace.compile_seconds == 7.0
