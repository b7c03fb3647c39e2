"""Progress as it is read from directories that other processes write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.outcomes import write_run
from tfsm.errors import TfsmError
from tfsm.report.live import ExperimentProgress, MetricsTail, StudyProgress, Watcher, check_directory
from tfsm.runs.records import DirectoryLock

STARTED = "2026-01-01T00:00:00+00:00"


def make_line(run: int, evaluations: int, fitness: float | None = 0.5, **more: Any) -> str:
    return json.dumps({"run": run, "evaluations": evaluations, "best_fitness": fitness, **more}) + "\n"


def write_record(
    directory: Path, status: str = "running", runs: list[dict[str, Any]] | None = None, **more: Any
) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    settings = {"domain": "made-up", "mutation": "control", "runs": 2, "evaluations": 1000}
    record = {"status": status, "settings": settings, "runs": runs or [], "started": STARTED, **more}
    (directory / "run.json").write_text(json.dumps(record))
    return directory


@pytest.fixture
def lock() -> Iterator[Any]:
    """Return a function that locks a directory, as a process that runs there does."""
    with ExitStack() as stack:

        def lock_(directory: Path) -> Path:
            stack.enter_context(DirectoryLock(directory))
            return directory

        yield lock_


def read_one(watcher: Watcher) -> ExperimentProgress:
    ((experiment,),) = [study.experiments for study in watcher.read()]
    return experiment


class TestMetricsTail:
    def test_a_half_written_line_counts_when_it_is_complete(self, tmp_path: Path) -> None:
        file, tail = tmp_path / "metrics.jsonl", MetricsTail(tmp_path)
        line = make_line(0, 20)
        file.write_text(make_line(0, 10) + line[:-9])
        tail.read()
        assert [found["evaluations"] for found in tail.lines] == [10]
        with file.open("a") as opened:
            opened.write(line[-9:])
        tail.read()
        tail.read()
        assert [found["evaluations"] for found in tail.lines] == [10, 20]

    @pytest.mark.parametrize("cut", range(1, 40, 3))
    def test_every_cut_through_a_line_gives_the_lines_before_it(self, tmp_path: Path, cut: int) -> None:
        file, tail = tmp_path / "metrics.jsonl", MetricsTail(tmp_path)
        content = make_line(0, 10) + make_line(1, 10, None)
        file.write_bytes(content.encode()[:-cut])
        tail.read()
        assert set(tail.latest) == {0}

    def test_what_is_no_line_of_a_run_is_left_out(self, tmp_path: Path) -> None:
        odd = ["\n", "[]\n", "{}\n", "\x00\x00\n", '{"run": true, "evaluations": 1}\n', "[" * 100_000 + "\n"]
        odd += ['{"run": 0, "evaluations": -1}\n', '{"run": 0, "evaluations": 1e400}\n']
        (tmp_path / "metrics.jsonl").write_text("".join([*odd, make_line(3, 7, float("nan"))]))
        tail = MetricsTail(tmp_path)
        tail.read()
        assert tail.latest == {3: {"run": 3, "evaluations": 7, "best_fitness": None}}

    def test_a_replaced_file_is_read_again(self, tmp_path: Path) -> None:
        file, tail = tmp_path / "metrics.jsonl", MetricsTail(tmp_path)
        file.write_text(make_line(0, 10) + make_line(0, 20))
        tail.read()
        other = tmp_path / "other"
        other.write_text(make_line(0, 10) + make_line(1, 30) + make_line(1, 40))
        other.replace(file)
        tail.read()
        assert {run: line["evaluations"] for run, line in tail.latest.items()} == {0: 10, 1: 40}

    def test_a_file_that_is_overwritten_in_place_is_read_again(self, tmp_path: Path) -> None:
        file, tail = tmp_path / "metrics.jsonl", MetricsTail(tmp_path)
        file.write_text(make_line(0, 10))
        tail.read()
        file.write_text(make_line(5, 11) + make_line(6, 12))
        tail.read()
        assert set(tail.latest) == {5, 6}

    def test_a_file_that_is_gone_counts_as_empty(self, tmp_path: Path) -> None:
        file, tail = tmp_path / "metrics.jsonl", MetricsTail(tmp_path)
        tail.read()
        file.write_text(make_line(0, 10))
        tail.read()
        assert tail.lines
        file.unlink()
        tail.read()
        assert (tail.lines, tail.latest) == ([], {})


class TestWatcher:
    def test_a_running_experiment(self, tmp_path: Path, lock: Any) -> None:
        ended = {"run": 0, "solved": True, "evaluations": 40, "best_fitness": 3.0}
        lock(write_record(tmp_path, runs=[ended], resumed=[{}]))
        file = tmp_path / "metrics.jsonl"
        file.write_text(make_line(0, 40, 3.0, divergence=0.1) + make_line(1, 100, 0.5, divergence=0.3))
        os.utime(file, (1000, 1000))
        watcher = Watcher(tmp_path)
        now = read_one(watcher)
        assert (now.status, now.runs, now.ended, now.solved) == ("running", 2, 1, 1)
        assert (now.evaluations, now.left, now.best_fitness, now.divergence) == (140, 900, 3.0, 0.2)
        assert now.share == pytest.approx(140 / 1040)
        assert now.rate is None, "a resumed run has no meaningful average"
        with file.open("a") as opened:
            opened.write(make_line(1, 300, 0.7))
        os.utime(file, (1004, 1004))
        (study,) = watcher.read()
        assert study.rate == 50
        assert study.seconds_left == 700 / 50

    def test_the_first_rate_is_the_average_since_the_start(self, tmp_path: Path, lock: Any) -> None:
        started = time.time() - 100
        lock(write_record(tmp_path, started=time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(started))))
        (tmp_path / "metrics.jsonl").write_text(make_line(0, 500))
        assert read_one(Watcher(tmp_path)).rate == pytest.approx(5, rel=0.1)

    @pytest.mark.parametrize("status", ["interrupted", "failed"])
    def test_runs_that_were_stopped_early_have_not_used_their_evaluations(self, tmp_path: Path, status: str) -> None:
        solved = {"run": 0, "solved": True, "evaluations": 300, "best_fitness": 2.0}
        stopped = {"run": 1, "solved": False, "evaluations": 100, "best_fitness": 1.0}
        write_record(tmp_path, status, runs=[solved, stopped])
        now = read_one(Watcher(tmp_path))
        assert (now.ended, now.solved, now.evaluations, now.left, now.best_fitness) == (1, 1, 400, 900, 2.0)
        assert now.share == pytest.approx(400 / 1300)

    def test_before_the_first_line_it_is_starting(self, tmp_path: Path, lock: Any) -> None:
        lock(write_record(tmp_path))
        now = read_one(Watcher(tmp_path))
        assert (now.status, now.evaluations, now.left, now.rate) == ("starting", 0, 2000, None)

    def test_a_dead_process_is_noticed_and_so_is_its_successor(self, tmp_path: Path) -> None:
        write_record(tmp_path)
        (tmp_path / "metrics.jsonl").write_text(make_line(0, 10))
        watcher = Watcher(tmp_path)
        with DirectoryLock(tmp_path):
            assert read_one(watcher).status == "running"
        assert read_one(watcher).status == "killed"
        with DirectoryLock(tmp_path):
            assert read_one(watcher).status == "running"

    def test_a_study_with_a_member_that_waits(self, tmp_path: Path, lock: Any) -> None:
        members = [{"name": name, "directory": name} for name in ("control", "sm-r")]
        study = {"kind": "compare", "domain": "made-up", "status": "running", "members": members}
        lock(tmp_path)
        (tmp_path / "study.json").write_text(json.dumps(study))
        watcher = Watcher(tmp_path)
        (before,) = watcher.read()
        assert [item.status for item in before.experiments] == ["waiting", "waiting"]
        assert before.seconds_left is None
        lock(write_record(tmp_path / "control"))
        (tmp_path / "control" / "metrics.jsonl").write_text(make_line(0, 10) + make_line(1, 10))
        (now,) = watcher.read()
        assert [(item.name, item.status, item.left) for item in now.experiments] == [
            ("control", "running", 1980),
            ("sm-r", "waiting", 2000),
        ]
        (tmp_path / "study.json").write_text(json.dumps(study | {"status": "interrupted"}))
        assert watcher.read()[0].experiments[1].status == "not started"

    def test_a_folder_is_divided_by_domain_and_new_directories_appear(self, tmp_path: Path) -> None:
        write_run(tmp_path / "b")
        watcher = Watcher(tmp_path)
        assert [(study.id, study.domain) for study in watcher.read()] == [("study-1", "made-up")]
        write_run(tmp_path / "a", domain="other")
        write_run(tmp_path / "deep" / "er")
        found = {study.id: (study.domain, len(study.experiments)) for study in watcher.read()}
        assert found == {"study-1": ("made-up", 2), "study-2": ("other", 1)}

    def test_a_finished_run_has_its_average_rate_and_no_time_left(self, tmp_path: Path) -> None:
        (study,) = Watcher(write_run(tmp_path / "run")).read()
        assert not study.is_active
        assert study.seconds_left is None
        (run,) = study.experiments
        assert (run.status, run.solved, run.runs, run.left, run.share) == ("finished", 1, 2, 0, 1.0)
        assert run.rate == pytest.approx(140 / 60)

    def test_damaged_records_are_shown_as_such(self, tmp_path: Path) -> None:
        write_run(tmp_path / "good")
        for name in ("bad/run.json", "odd/study.json"):
            (tmp_path / name).parent.mkdir()
            (tmp_path / name).write_text("{")
        items = [item for study in Watcher(tmp_path).read() for item in study.experiments]
        assert {item.name: item.status for item in items} == {"control": "finished", "bad": "damaged", "odd": "damaged"}
        assert all("not valid JSON" in item.problem for item in items if item.status == "damaged")

    def test_nothing_is_written(self, tmp_path: Path) -> None:
        write_run(tmp_path / "run", status="running")
        (tmp_path / "run" / ".lock").touch()

        def state() -> list[tuple[str, int, int]]:
            return sorted((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in tmp_path.rglob("*"))

        before = state()
        watcher = Watcher(tmp_path)
        for study in watcher.read():
            watcher.analyze(study)
        assert state() == before

    def test_reading_does_not_keep_another_process_from_locking(self, tmp_path: Path) -> None:
        write_run(tmp_path / "run", status="running")
        (tmp_path / "run" / ".lock").touch()
        program = f"""if True:
            from pathlib import Path
            from tfsm.report.live import Watcher
            watcher = Watcher(Path({str(tmp_path)!r}))
            print("reading", flush=True)
            while True:
                watcher.read()
        """
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen([sys.executable, "-c", program], env=environ, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                for _ in range(100):
                    with DirectoryLock(tmp_path / "run"):
                        pass
            finally:
                process.kill()


class TestAnalysis:
    def test_active_runs_count_as_unsolved_so_far(self, tmp_path: Path, lock: Any) -> None:
        ended = {"run": 0, "solved": True, "evaluations": 40, "best_fitness": 3.0}
        lock(write_record(tmp_path, runs=[ended]))
        (tmp_path / "metrics.jsonl").write_text(make_line(0, 40, 3.0) + make_line(1, 100, 0.5) + make_line(1, 200, 0.6))
        watcher = Watcher(tmp_path)
        (study,) = watcher.read()
        findings, final = watcher.analyze(study)
        assert findings is not None
        assert not final
        (method,) = findings.study.methods
        assert [(run.solved, run.evaluations) for run in method.outcomes] == [(True, 40), (False, 200)]
        assert method.budget == 200
        assert list(findings.solved["control"].share) == [0, 0.5, 0.5]

    def test_a_finished_study_gives_the_numbers_of_its_report(self, tmp_path: Path) -> None:
        from tfsm.analysis.results import load_studies
        from tfsm.report.findings import analyze_study

        write_run(tmp_path / "a")
        write_run(tmp_path / "b", mutation="sm-r")
        watcher = Watcher(tmp_path)
        (study,) = watcher.read()
        findings, final = watcher.analyze(study)
        assert findings is not None
        assert final
        expected = analyze_study(load_studies([tmp_path])[0])
        assert (findings.summaries, findings.comparisons) == (expected.summaries, expected.comparisons)

    def test_without_any_line_there_is_nothing_to_analyze(self, tmp_path: Path, lock: Any) -> None:
        watcher = Watcher(lock(write_record(tmp_path)))
        assert [watcher.analyze(study) for study in watcher.read()] == [(None, False)]

    def test_a_killed_experiment_without_ended_runs_has_nothing_final(self, tmp_path: Path) -> None:
        (write_record(tmp_path) / "metrics.jsonl").write_text(make_line(0, 100))
        watcher = Watcher(tmp_path)
        (study,) = watcher.read()
        assert not study.is_active
        findings, final = watcher.analyze(study)
        assert findings is not None
        assert not final


def test_a_directory_without_runs_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(TfsmError, match="no runs here") as caught:
        check_directory(tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(TfsmError, match="no such directory"):
        check_directory(tmp_path / "missing")


def test_reading_imports_neither_numpy_nor_tensorflow() -> None:
    program = "import sys, tfsm.report.live; print(*sys.modules)"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"numpy", "scipy", "tensorflow", "keras", "matplotlib"}


def test_a_study_whose_budget_is_unknown_has_no_time_left() -> None:
    running = ExperimentProgress("a", "d", Path("a"), "running", runs=2, left=100, rate=10.0)
    waiting = ExperimentProgress("b", "d", Path("b"), "waiting")
    assert StudyProgress("study-1", "d", (running,)).seconds_left == 10
    assert StudyProgress("study-1", "d", (running, waiting)).seconds_left is None
