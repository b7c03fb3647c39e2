"""The checks that every part must pass, and tests of these parts."""

import numpy as np
import pytest


@pytest.mark.tfsm("package:tfsm-example-plugin")
def test_conformance(tfsm_check):
    tfsm_check()


@pytest.mark.tfsm("mutation:sparse-noise", share=0.3)
def test_a_share_of_the_weights_changes(tfsm_children):
    parent, children = tfsm_children(intensity=1.0, count=300)
    np.testing.assert_allclose((children != parent).mean(), 0.3, atol=0.03)


@pytest.mark.tfsm("domain:xor")
def test_a_zero_network_always_outputs_one_half(tfsm_evaluate, tfsm_network):
    evaluation = tfsm_evaluate(np.zeros((1, tfsm_network.size)))
    np.testing.assert_allclose(evaluation.fitness, [-0.25])
    assert not evaluation.solved.any()


@pytest.mark.tfsm("selection:random-parent")
def test_the_parent_is_random_and_the_worst_is_replaced(tfsm_choose):
    parents, replaced = tfsm_choose([0.3, 0.9, 0.1], count=100)
    assert set(parents) == {0, 1, 2}
    assert set(replaced) == {2}


@pytest.mark.tfsm("observer:csv", columns=("run", "best_fitness"))
def test_the_table_has_one_row_per_run_and_interval(tfsm_notify, tmp_path):
    tfsm_notify(tmp_path)
    assert (tmp_path / "metrics.csv").read_text().split() == ["run,best_fitness", "0,0.5", "1,0.5"]
