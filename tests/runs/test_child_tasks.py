"""Dispatching tasks to workers that are late, fail, or answer too late; the workers are this process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.helpers.domains import HostTarget, Target
from tests.helpers.pools import InProcessBackend, make_in_process_backend
from tfsm.errors import TfsmError
from tfsm.evolution import evaluation
from tfsm.plugins import Plugins, load_plugins
from tfsm.runs.records import read_record
from tfsm.runs.result import Result
from tfsm.runs.runner import ExperimentSpec, run_experiment, run_on_workers
from tfsm.settings import ResolvedSettings, resolve

SETS = ["population=6", "size=3", "log_every=20", "intensity=0.1", "init=normal", "init_scale=1.0"]


@dataclass(frozen=True, kw_only=True)
class FailsOnce(HostTarget):
    """Counts its calls, and fails at one of them."""

    calls: ClassVar[list[int]] = [0]
    fail_at: ClassVar[list[int]] = [0]

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Any:
        self.calls[0] += 1
        if self.calls[0] == self.fail_at[0]:
            raise ValueError("not now")
        return super().evaluate(network, genomes, seed)


@pytest.fixture(autouse=True)
def _reset_calls() -> None:
    FailsOnce.calls[0], FailsOnce.fail_at[0] = 0, -1


def resolve_settings(domain: Any, *sets: str, runs: int = 2, evaluations: int = 40) -> tuple[Plugins, ResolvedSettings]:
    plugins, name = load_plugins().with_part("domain", domain)
    overrides = {"runs": runs, "evaluations": evaluations}
    return plugins, resolve(plugins, domain=name, mutation="control", overrides=overrides, sets=[*SETS, *sets])


def evolve(backend: InProcessBackend | None, domain: Any, *sets: str, out: Path | None = None, **more: Any) -> Result:
    plugins, resolved = resolve_settings(domain, *sets, **more)
    messages: list[str] = []
    result = run_experiment(plugins, resolved, out=out, keep=out is not None, backend=backend, notify=messages.append)
    assert not any("broken" in line for line in messages), messages
    return result


def summarize(result: Result) -> list[tuple[Any, ...]]:
    return [(run.run, run.solved, run.evaluations, run.champion.tobytes()) for run in result.runs]


@pytest.fixture(scope="module")
def expected() -> list[tuple[Any, ...]]:
    return summarize(evolve(None, HostTarget(near=0.0)))


@pytest.mark.sample(2)
@pytest.mark.parametrize("grain", ["runs", "children"])
def test_a_worker_that_never_starts_is_not_waited_for(expected: list[tuple[Any, ...]], grain: str) -> None:
    found = evolve(make_in_process_backend(3, grain, absent=[0, 2]), HostTarget(near=0.0))
    assert summarize(found) == expected


def test_groups_of_workers_that_never_start_can_be_interrupted() -> None:
    plugins, resolved = resolve_settings(Target(near=0.0))
    result = run_experiment(
        plugins, resolved, keep=False, backend=make_in_process_backend(2, absent=[0, 1]), stop=lambda: True
    )
    assert result.interrupted
    assert result.runs == ()


@pytest.mark.sample(2)
@pytest.mark.parametrize("call", [2, 9, *(pytest.param(call, marks=pytest.mark.slow) for call in (3, 4, 20))])
def test_an_evaluation_that_fails_once_is_retried(expected: list[tuple[Any, ...]], call: int) -> None:
    """A worker first calls the domain once for the shapes of its results, and may fail at that, too."""
    FailsOnce.fail_at[0] = call
    found = evolve(make_in_process_backend(1, "children"), FailsOnce(near=0.0), "failures=broken")
    assert FailsOnce.calls[0] > call
    assert summarize(found) == expected


@pytest.mark.slow
def test_a_batch_that_fails_is_made_again_one_by_one() -> None:
    expected = summarize(evolve(None, HostTarget(near=0.0), "offspring=7"))
    FailsOnce.fail_at[0] = 5
    found = evolve(
        make_in_process_backend(1, "children"), FailsOnce(near=0.0), "failures=broken", "offspring=7", runs=1
    )
    assert FailsOnce.calls[0] > 12, "the batch, and then seven single children"
    assert summarize(found) == expected[:1]


@pytest.mark.slow
def test_a_failure_after_the_end_of_the_run_is_ignored() -> None:
    evolve(make_in_process_backend(1, "children"), FailsOnce(near=1e9))
    driver = FailsOnce.calls[0] - 3  # the worker calls once for shapes, and makes one individual of each run
    # The first individuals of both runs solve; the second one of run 0, in flight at the same time, fails.
    FailsOnce.calls[0], FailsOnce.fail_at[0] = 0, driver + 6
    result = evolve(make_in_process_backend(4, "children"), FailsOnce(near=1e9))
    assert [run.evaluations for run in result.runs] == [1, 1]
    assert FailsOnce.calls[0] > driver + 6


def test_a_run_by_children_cannot_be_resumed_by_groups(tmp_path: Path) -> None:
    out = tmp_path / "run"
    evolve(make_in_process_backend(2, "children"), HostTarget(near=0.0), out=out)
    plugins, resolved = resolve_settings(HostTarget(near=0.0), evaluations=60)
    for backend in (None, make_in_process_backend(2)):
        with pytest.raises(TfsmError, match="was started with --grain children and can only be resumed with it"):
            run_experiment(plugins, resolved, out=out, resume=True, backend=backend)
    assert read_record(out)["status"] == "finished"


@dataclass(frozen=True, kw_only=True)
class Hanging(HostTarget):
    """Never answers."""

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Any:
        time.sleep(30.0)


@pytest.mark.parametrize("backend", [None, make_in_process_backend(1, "children")], ids=["here", "children"])
def test_a_domain_that_hangs_at_its_first_call_is_an_error(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "WARM_UP", 0.1)
    with pytest.raises(TfsmError, match=r"an evaluation took longer than 0\.2 seconds"):
        evolve(backend, Hanging(), "evaluation_timeout=0.1")


def test_an_experiment_beside_one_that_cannot_start_records_its_end(tmp_path: Path) -> None:
    plugins, sound = resolve_settings(HostTarget(near=0.0))
    plugins, name = plugins.with_part("domain", WrongShape())
    wrong = resolve(plugins, domain=name, mutation="control", overrides={"runs": 2, "evaluations": 40}, sets=SETS)
    with pytest.raises(TfsmError, match="returned fitness of shape"):
        run_on_workers(
            plugins,
            [ExperimentSpec(sound, tmp_path / "a"), ExperimentSpec(wrong, tmp_path / "b")],
            make_in_process_backend(2),
        )
    assert read_record(tmp_path / "a")["status"] == "failed"
    assert not (tmp_path / "b").exists()


@dataclass(frozen=True, kw_only=True)
class WrongShape(HostTarget):
    """Returns fitness of the wrong shape."""

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Any:
        found = super().evaluate(network, genomes, seed)
        return found._replace(fitness=np.zeros((len(np.asarray(genomes)), 2)))
