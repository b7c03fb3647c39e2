"""Every input file is read or refused with a message; it never executes code or exhausts memory."""

from __future__ import annotations

import json
import resource
import shutil
import tomllib
from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import layers as kl

from tests.domains.hard_maze.mazes import ROOM_FILE
from tests.fuzz.generators import (
    ARCHIVES,
    ARRAYS,
    DOMAINS,
    ENDLESS,
    MUTATIONS,
    SELECTIONS,
    VALUES,
    LeaveMark,
    change_value,
    damage,
    damage_model,
    make_archive,
    read_members,
    save_array,
    to_toml,
)
from tests.fuzz.harness import (
    SECONDS,
    empty_folder,
    fuzz_settings,
    get_refusal,
    run_command,
    time_limit,
    write_small_model,
)
from tfsm.models.inputs import read_experience
from tfsm.models.loading import load_model
from tfsm.settings.schema import ENGINE_KEYS, RUN_KEYS
from tfsm.settings.sources import built_in_path
from tfsm_domains.hard_maze.domain import HardMaze
from tfsm_domains.hard_maze.maze import PAPER
from tfsm_domains.pixel_maze.layout import SHIPPED, read_layout

FILES = st.tuples(st.just("x.npy"), ARRAYS) | st.tuples(st.sampled_from(["x.npz", "x.npy"]), ARCHIVES)
MOST = 2**18


@pytest.fixture(scope="module")
def model() -> Iterator[Path]:
    with empty_folder() as folder:
        yield write_small_model(folder / "m.keras")


def read_peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@fuzz_settings(60)
@given(file=FILES)
def test_experience_is_read_or_refused(file: tuple[str, bytes]) -> None:
    name, content = file
    with empty_folder(), time_limit(SECONDS):
        Path(name).write_bytes(content)
        before = read_peak_memory()
        assert get_refusal(lambda: read_experience(name), default=f"{name}: ").startswith(f"{name}: ")
        assert read_peak_memory() - before < MOST
        assert not Path("executed").exists(), "a pickle was executed"


@pytest.mark.parametrize(
    "arguments", [("mutate", "--out", "child.keras"), ("sensitivity",)], ids=lambda arguments: arguments[0]
)
@fuzz_settings(6, share=0.3)
@given(file=FILES)
def test_commands_accept_or_refuse_experience(model: Path, arguments: tuple[str, ...], file: tuple[str, bytes]) -> None:
    name, content = file
    with empty_folder():
        Path(name).write_bytes(content)
        done = run_command(arguments[0], str(model), "--experience", name, *arguments[1:])
        assert done.returncode == 0 or done.stderr.startswith("error: "), done.stderr
        assert Path("child.keras").exists() == (arguments[0] == "mutate" and done.returncode == 0)
        assert not Path("executed").exists(), "a pickle was executed"


def test_an_executed_pickle_is_detected() -> None:
    objects = np.empty(1, object)
    objects[0] = LeaveMark()
    with empty_folder():
        Path("x.npy").write_bytes(save_array(objects))
        np.load("x.npy", allow_pickle=True)
        assert Path("executed").exists()


def write_recurrent_model(file: Path) -> Path:
    keras.Sequential([keras.Input((4, 3)), kl.LSTM(3), kl.LayerNormalization(), kl.Dense(2)]).save(file)
    return file


def write_branched_model(file: Path) -> Path:
    first, second = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    keras.Model([first, second], kl.Add()([kl.Dense(2)(first), kl.Dense(2)(second)])).save(file)
    return file


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    file = tmp_path_factory.mktemp("models") / "model.keras"
    return {
        make.__name__: read_members(make(file))
        for make in (write_small_model, write_recurrent_model, write_branched_model)
    }


def is_unharmed() -> bool:
    return not any(Path(place).exists() for place in ("executed", "../executed"))


@pytest.mark.sample(2)
@pytest.mark.parametrize("make", ["write_small_model", "write_recurrent_model", "write_branched_model"])
@fuzz_settings(15)
@given(data=st.data())
def test_models_are_loaded_or_refused(intact: dict[str, dict[str, bytes]], make: str, data: st.DataObject) -> None:
    content = data.draw(damage_model(intact[make]))
    with empty_folder(), time_limit(SECONDS):
        Path("deep").mkdir()
        file = Path("deep/m.keras")
        file.write_bytes(content)
        message = get_refusal(lambda: load_model(file), default=str(file))
        assert message.startswith(str(file))
        assert message.isprintable(), "a file cannot send control sequences to the terminal"
        assert is_unharmed()


@fuzz_settings(5, share=0.2)
@given(data=st.data())
def test_doctor_reports_or_refuses_models(intact: dict[str, dict[str, bytes]], data: st.DataObject) -> None:
    content = data.draw(damage_model(intact["write_small_model"]))
    with empty_folder():
        Path("m.keras").write_bytes(content)
        done = run_command("doctor", "--model", "m.keras")
        assert done.returncode == 0 or done.stderr.startswith("error: "), done.stderr
        assert is_unharmed()


NUMBERS: Final = st.sampled_from([0, 1, -1, 8, 50, 100, 1e-3, 1e-300, 999_999, 1e6, 1e300, float("nan")]) | st.floats()
WALL: Final = st.lists(NUMBERS, min_size=4, max_size=4)
POINT: Final = st.lists(NUMBERS, min_size=2, max_size=2)
OTHERS: Final = st.one_of(VALUES, NUMBERS, ENDLESS, POINT, WALL, st.lists(WALL, max_size=4))
MAZES: Final = st.one_of(
    damage(ROOM_FILE.encode()),
    damage(PAPER.read_bytes()),
    change_value(tomllib.loads(ROOM_FILE), OTHERS).map(lambda table: to_toml(_table(table)).encode()),
)
DRAWING: Final = SHIPPED["short"].read_text()
LAYOUTS: Final = st.one_of(
    damage(DRAWING.encode()),
    st.lists(st.sampled_from([*DRAWING.splitlines(), "#" * 11, "#.........#", "#+SE+++++.#"]), max_size=12).map(
        lambda rows: "\n".join(rows).encode()
    ),
    st.text(st.sampled_from("#.+SE\n \r\x0b\u2028"), max_size=60).map(str.encode),
)


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"walls": value}


@pytest.mark.slow
@fuzz_settings(40)
@given(content=MAZES)
def test_hard_mazes_are_read_or_refused(content: bytes) -> None:
    with empty_folder(), time_limit(SECONDS):
        Path("my.toml").write_bytes(content)
        assert "my.toml" in get_refusal(lambda: HardMaze(maze="my.toml"), default="my.toml")


@fuzz_settings(60)
@given(content=LAYOUTS)
def test_pixel_mazes_are_read_or_refused(content: bytes) -> None:
    with empty_folder(), time_limit(SECONDS):
        Path("my.txt").write_bytes(content)
        assert "my.txt" in get_refusal(lambda: read_layout("my.txt", 40), default="my.txt")


@pytest.mark.parametrize(
    ("domain", "mazes"), [("hard-maze", MAZES), ("topdown-maze", LAYOUTS)], ids=["hard", "topdown"]
)
@fuzz_settings(3, share=0.1)
@given(data=st.data())
def test_doctor_reports_or_refuses_mazes(domain: str, mazes: st.SearchStrategy[bytes], data: st.DataObject) -> None:
    with empty_folder():
        Path("maze").write_bytes(data.draw(mazes))
        done = run_command("doctor", domain, "--mutation", "control", "--set", "maze=maze")
        assert done.returncode == 0 or done.stderr.startswith("error: "), done.stderr


SHIPPED_TOML_FILES: Final = built_in_path().read_bytes()
NAMES: Final = (*DOMAINS, *MUTATIONS, *SELECTIONS, "tensorboard", "nobody", "")
KEYS: Final = st.sampled_from([*RUN_KEYS, *ENGINE_KEYS, *NAMES, "options", "mutation", "selection_options", "maze"])
OTHERS_TOML_FILES: Final = st.one_of(
    VALUES,
    ENDLESS,
    st.sampled_from([date(2026, 1, 2), datetime(2026, 1, 2, 3), time(4, 5), *NAMES, "none", "xavier-normal", "self"]),
    st.integers(-2, 20),
    st.floats(),
)
RUN: Final = st.dictionaries(KEYS | st.text(max_size=3), OTHERS_TOML_FILES, max_size=4)
TABLES: Final = st.fixed_dictionaries(
    {},
    optional={
        "run": RUN,
        "engine": RUN,
        "domains": st.dictionaries(st.sampled_from(NAMES), RUN | OTHERS_TOML_FILES, max_size=2),
        "mutations": st.dictionaries(st.sampled_from(NAMES), RUN | OTHERS_TOML_FILES, max_size=2),
        "selections": st.dictionaries(st.sampled_from(NAMES), RUN | OTHERS_TOML_FILES, max_size=2),
        "observers": st.dictionaries(st.sampled_from(NAMES), RUN | OTHERS_TOML_FILES, max_size=2),
        "": OTHERS_TOML_FILES,
    },
)
FILES_TOML_FILES: Final = st.one_of(
    damage(SHIPPED_TOML_FILES),
    TABLES.map(lambda tables: to_toml(tables).encode()),
    change_value(tomllib.loads(SHIPPED_TOML_FILES.decode()), OTHERS_TOML_FILES).map(
        lambda tables: to_toml(_table_toml_files(tables)).encode()
    ),
    st.lists(st.sampled_from(SHIPPED_TOML_FILES.splitlines(keepends=True)), max_size=30).map(b"".join),
)


def _table_toml_files(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"run": value}


def try_settings(content: bytes, nearest: bool, *arguments: str) -> None:
    with empty_folder():
        file = Path("tfsm.toml" if nearest else "other.toml")
        file.write_bytes(content)
        done = run_command(*arguments, *([] if nearest else ["--config", str(file)]), interrupt_after=5.0)
        if done.returncode:
            assert done.stderr.startswith(("error: ", "warning: ")) or done.returncode == 130, done.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("arguments", [("config", "show"), ("config", "show", "simple-easy")], ids=" ".join)
@fuzz_settings(10)
@given(content=FILES_TOML_FILES, nearest=st.booleans())
def test_settings_are_shown_or_refused(arguments: tuple[str, ...], content: bytes, nearest: bool) -> None:
    try_settings(content, nearest, *arguments)


@pytest.mark.slow
@fuzz_settings(3, share=0.2)
@given(content=FILES_TOML_FILES, nearest=st.booleans())
def test_a_run_succeeds_or_is_refused(content: bytes, nearest: bool) -> None:
    try_settings(
        content, nearest, "run", "simple-easy", "--mutation", "control", "--evaluations", "4", "--population", "1"
    )


QUICK: Final = {
    "list": ("runs", "list", "."),
    "list-json": ("runs", "list", ".", "--json"),
    "show": ("runs", "show", "{}"),
    "show-json": ("runs", "show", "{}", "--json"),
    "report": ("report", "{}"),
    "report-json": ("report", "{}", "--json", "--at", "3"),
    "rm": ("runs", "rm", "{}"),
    "page": ("report", "{}", "--html", "page.html", "--figures", "figures"),
}
SLOW: Final = {
    "replay": ("replay", "{}", "--save", "film.png"),
    "population": ("replay", "{}", "--save", "film.png", "--population"),
    "robustness": ("robustness", "{}", "--all", "--mutation", "control", "--perturbations", "2", "--histogram", "2"),
    "again": ("compare", "hard-maze", "--mutation", "control", "--runs", "1", "--evaluations", "8", "--out", "study",
              "--set", "maze=room.toml", "--set", "engine.compile=graph", "--set", "log_every=4",
              "--selection", "map-elites", "--population", "4"),
}  # fmt: skip


STORED_STUDY: Final = Path(__file__).parents[1] / "golden" / "runs-0.1" / "compare"


@pytest.fixture(scope="module")
def study() -> Iterator[Path]:
    with empty_folder() as folder:
        Path("room.toml").write_text(ROOM_FILE)
        done = run_command(*SLOW["again"])
        assert done.returncode == 0, done.stderr
        yield folder / "study"


@st.composite
def damage_study(draw: st.DrawFn, study: Path) -> tuple[Path, bytes]:
    """Draw a file of a study, and its damaged content."""
    files = sorted(path.relative_to(study) for path in study.rglob("*") if path.is_file())
    # Prefer the records: most of the other files hold only numbers.
    chosen = draw(st.sampled_from([file for file in files if file.suffix.startswith(".json")]) | st.sampled_from(files))
    content = (study / chosen).read_bytes()
    if chosen.suffix == ".npz" and draw(st.booleans()):
        tables = read_members(study / chosen)
        return chosen, make_archive(tables | {draw(st.sampled_from(sorted(tables))): draw(ARRAYS)})
    if chosen.suffix not in (".json", ".jsonl") or draw(st.booleans()):
        return chosen, draw(damage(content))
    if chosen.suffix == ".json":
        return chosen, json.dumps(draw(change_value(json.loads(content)))).encode()
    lines: list[Any] = [json.loads(line) for line in content.splitlines()]
    found = draw(change_value(lines))
    return chosen, "".join(f"{json.dumps(line)}\n" for line in (found if isinstance(found, list) else [found])).encode()


def try_run_directory(study: Path, arguments: tuple[str, ...], data: st.DataObject) -> None:
    file, content = data.draw(damage_study(study))
    intact = data.draw(st.sampled_from(["study", "study/control"]))
    with empty_folder():
        shutil.copytree(study, "study")
        Path("room.toml").write_text(ROOM_FILE)
        Path("study", file).write_bytes(content)
        run_command(*(word.format(intact) for word in arguments))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", QUICK)
@fuzz_settings(5)
@given(data=st.data())
def test_run_directories_are_shown_or_refused(name: str, data: st.DataObject) -> None:
    try_run_directory(STORED_STUDY, QUICK[name], data)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
@fuzz_settings(1, share=0.2)
@given(data=st.data())
def test_run_directories_are_rendered_or_refused(study: Path, name: str, data: st.DataObject) -> None:
    try_run_directory(study, SLOW[name], data)
