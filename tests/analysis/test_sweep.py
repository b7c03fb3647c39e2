"""The grid search's choice, on synthetic runs."""

from __future__ import annotations

import tomllib

import pytest

from tests.helpers.outcomes import make_method
from tfsm.analysis.sweep import choose_intensity, format_toml


def test_the_fewest_evaluations_on_average_win_and_unsolved_runs_count_in_full() -> None:
    # Means: 0.1: (10 + 100) / 2 = 55; 0.01: (50 + 40) / 2 = 45.
    choice = choose_intensity("control", {0.1: make_method("a", [10], 1), 0.01: make_method("b", [50, 40])})
    assert [(score.intensity, score.evaluations) for score in choice.scores] == [(0.01, 45.0), (0.1, 55.0)]
    assert choice.by == "evaluations"
    assert [(score.solved, score.runs) for score in choice.scores] == [(2, 2), (1, 2)]


def test_fitness_decides_where_nothing_is_solved() -> None:
    tried = {0.1: make_method("a", [], 3, fitness=-2.0), 0.01: make_method("b", [], 3, fitness=-1.0)}
    choice = choose_intensity("control", tried)
    assert (choice.by, choice.best.intensity, choice.best.sure) == ("fitness", 0.01, 1.0)


def test_the_confidence_of_a_choice_is_bootstrapped() -> None:
    # One setting always takes 50. The other takes 10 or 80: of two drawn with replacement the mean is 10, 45 or 80
    # with probabilities 1/4, 1/2 and 1/4, so that it wins three times out of four.
    choice = choose_intensity("control", {0.1: make_method("a", [50, 50]), 0.01: make_method("b", [10, 80])})
    sure = {score.intensity: score.sure for score in choice.scores}
    assert sure[0.01] == pytest.approx(0.75, abs=0.02)
    assert sum(sure.values()) == pytest.approx(1.0)
    assert (
        choice.scores
        == choose_intensity("control", {0.1: make_method("a", [50, 50]), 0.01: make_method("b", [10, 80])}).scores
    )


def test_a_choice_at_the_edge_of_the_grid_is_marked() -> None:
    grid = {0.1: make_method("a", [50]), 0.01: make_method("b", [10]), 0.001: make_method("c", [30])}
    assert not choose_intensity("control", grid).at_the_edge
    assert choose_intensity("control", {x: grid[x] for x in (0.01, 0.001)}).at_the_edge
    assert not choose_intensity("control", {0.1: grid[0.1]}).at_the_edge


def test_the_fragment_is_a_tfsm_toml() -> None:
    choices = [
        choose_intensity(name, {0.1: make_method("a", [50]), 0.0001: make_method("b", [10])})
        for name in ("control", "sm-g-so")
    ]
    text = format_toml("hard-maze", choices, ["tfsm", "sweep", "hard-maze"])
    assert tomllib.loads(text) == {"domains": {"hard-maze": {"intensity": {"control": 0.0001, "sm-g-so": 0.0001}}}}
    assert "# Chosen by: tfsm sweep hard-maze" in text


def test_a_fragment_of_divergences_has_percentages_in_quotes() -> None:
    tried = {1.0: make_method("a", [50]), 0.1: make_method("b", [10])}
    choice = choose_intensity("sm-g-sum", tried, setting="divergence", unit="%")
    text = format_toml("gym", [choice], ["tfsm", "sweep", "gym"])
    assert tomllib.loads(text) == {"domains": {"gym": {"divergence": {"sm-g-sum": "0.1%"}}}}
