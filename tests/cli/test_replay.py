"""The command `tfsm replay`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import imageio.v2 as imageio
import imageio_ffmpeg
import numpy as np
import pytest

from tests.domains.hard_maze.mazes import ROOM_FILE
from tests.helpers.commands import CommandResult, tfsm, tfsm_process


def read_frames(file: Path) -> list[np.ndarray]:
    if file.suffix == ".gif":
        return imageio.mimread(file)
    # The reader of Imageio leaves pipes open, which causes a warning.
    frames = imageio_ffmpeg.read_frames(str(file))
    width, height = next(frames)["size"]
    return [np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in frames]


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two small runs of a maze."""
    cwd = tmp_path_factory.mktemp("replay")
    (cwd / "room.toml").write_text(ROOM_FILE)
    settings = ["--population", "5", "--evaluations", "12", "--set", "maze=room.toml", "--set", "log_every=5"]
    words = ["run", "hard-maze", "--mutation", "control", "--runs", "2", *settings, "--out", "r"]
    done = tfsm(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return cwd


def test_behaviors_of_populations_are_stored(finished_runs: Path) -> None:
    with np.load(finished_runs / "r" / "behavior" / "run-001.npz") as kept:
        assert kept["evaluations"].tolist() == [10, 12]
        assert kept["behavior"].shape == (2, 5, 2)
        assert (kept["behavior"] > 0).all()
        assert (kept["behavior"] < 100).all()


@pytest.mark.parametrize("run", [tfsm, pytest.param(tfsm_process, marks=pytest.mark.slow)])
def test_a_picture_is_saved_without_a_display(
    finished_runs: Path, run: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", "")
    monkeypatch.setenv("SDL_VIDEODRIVER", "nonsense")
    done = run("replay", "r", "--save", "trail.png", cwd=finished_runs)
    assert done.returncode == 0, done.stderr
    assert "wrote trail.png" in done.stderr
    assert imageio.imread(finished_runs / "trail.png").shape[2] == 3


# Imageio does not close the pipes of ffmpeg, although that process has ended.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("ending", ["mp4", "gif"])
def test_an_animation_is_saved(finished_runs: Path, ending: str) -> None:
    done = tfsm("replay", "r", "--run", "1", "--save", f"film.{ending}", cwd=finished_runs)
    assert done.returncode == 0, done.stderr
    frames = read_frames(finished_runs / f"film.{ending}")
    assert len(frames) == (11 if ending == "gif" else 21)
    assert any((frame != frames[0]).any() for frame in frames[1:])


@pytest.mark.slow
def test_mutants_of_several_operators_are_shown_side_by_side_and_counted(finished_runs: Path) -> None:
    names = "control,sm-g-abs"
    done = tfsm("replay", "r", "--mutants", "6", "--mutation", names, "--save", "m.png", "--json", cwd=finished_runs)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["mutants"]
    assert [(group["mutation"], group["intensity"]) for group in found] == [("control", 0.05), ("sm-g-abs", 0.005)]
    for group in found:
        assert len(group["fitness"]) == group["count"] == 6
        assert len(set(group["fitness"])) > 1
    assert found[0]["champion_fitness"] == found[1]["champion_fitness"]
    alone = tfsm("replay", "r", "--save", "one.png", cwd=finished_runs)
    assert alone.returncode == 0, alone.stderr
    assert imageio.imread(finished_runs / "m.png").shape[1] == 2 * imageio.imread(finished_runs / "one.png").shape[1]


@pytest.mark.slow
def test_the_replayed_champion_has_the_fitness_of_the_run(finished_runs: Path) -> None:
    done = tfsm("replay", "r", "--run", "0", "--mutants", "2", "--save", "m.png", "--json", cwd=finished_runs)
    record = json.loads((finished_runs / "r" / "run.json").read_text())
    assert json.loads(done.stdout)["mutants"][0]["champion_fitness"] == record["runs"][0]["champion_fitness"]


def test_populations_are_drawn(finished_runs: Path) -> None:
    done = tfsm("replay", "r", "--population", "--run", "1", "--save", "ends.png", cwd=finished_runs)
    assert done.returncode == 0, done.stderr
    assert imageio.imread(finished_runs / "ends.png").std() > 0


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["x11", ""])
def test_without_a_display_a_window_is_refused_in_one_line(
    finished_runs: Path, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    for name, value in (("DISPLAY", ""), ("WAYLAND_DISPLAY", ""), ("SDL_VIDEODRIVER", driver)):
        monkeypatch.setenv(name, value)
    done = tfsm("replay", "r", cwd=finished_runs)
    assert done.returncode == 2
    assert "no window can be opened here" in done.stderr
    assert "--save" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: no such directory"),
        ([".", "--save", "x.png"], "not a run directory, it has no run.json"),
        (["r", "--run", "7", "--save", "x.png"], "has no run 7 that has ended; it has 0, 1"),
        (["r", "--save", "x.avi"], "x.avi: unknown format; use a file name ending in .gif, .mp4, .png"),
        (["r", "--save", "no/x.png"], "no/x.png: there is no directory 'no'"),
        (["r", "--population", "--save", "x.gif"], "x.gif: a picture needs a file name ending in .png"),
        (["r", "--mutation", "control", "--save", "x.png"], "set their number with --mutants N"),
        (["r", "--mutants", "3", "--mutation", "sm-gabs", "--save", "x.png"], "did you mean 'sm-g-abs'"),
        (["r", "--mutants", "3", "--population", "--save", "x.png"], "cannot be combined"),
        (["broken", "--save", "x.png"], "not valid JSON"),
        (["lost", "--run", "1", "--save", "x.png"], "run-001.keras: no such file"),
    ],
)
def test_mistakes_are_reported_in_one_line_and_leave_no_files(
    finished_runs: Path, arguments: list[str], message: str
) -> None:
    if not (finished_runs / "broken").exists():
        (finished_runs / "broken").mkdir()
        (finished_runs / "broken" / "run.json").write_text('{"settings": {}')
        shutil.copytree(finished_runs / "r", finished_runs / "lost")
        for file in (finished_runs / "lost" / "champions").iterdir():
            file.unlink()
    done = tfsm("replay", *arguments, cwd=finished_runs)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not [file for file in finished_runs.iterdir() if file.name.startswith((".", "x."))]


@pytest.mark.slow
def test_a_domain_without_pictures_is_reported(tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(
        "import keras\n\n\ndef model():\n    return keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])\n\n\n"
        "def score(model):\n    return float(model(keras.ops.ones((1, 1)))[0, 0])\n"
    )
    settings = ["--model", "my:model", "--set", "function=my:score", "--population", "5", "--evaluations", "6", "-q"]
    assert tfsm("run", "fitness", "--mutation", "control", *settings, "--out", "p", cwd=tmp_path).returncode == 0
    for more, message in (
        (["--save", "x.png"], "does not support films"),
        (["--population"], "does not support pictures of populations"),
    ):
        done = tfsm("replay", "p", *more, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
