"""`tfsm mutate` and `tfsm sensitivity` run in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as kl
from PIL import Image

import tfsm
from tests.helpers.commands import CommandResult
from tests.helpers.commands import tfsm as tfsm_command

X = np.random.default_rng(0).normal(size=(6, 3))


def run(*arguments: object) -> CommandResult:
    return tfsm_command(*map(str, arguments), cwd=Path.cwd())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with a model of three inputs and its experience."""
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(1)
    keras.Sequential([keras.Input((3,)), kl.Dense(4, "tanh", name="hidden"), kl.Dense(2, name="out")]).save("m.keras")
    np.save("x.npy", X)
    return tmp_path


def test_the_command_makes_the_child_of_the_python_function(folder: Path) -> None:
    done = run("mutate", "m.keras", "--experience", "x.npy", "--mutation", "sm-g-abs", "--intensity", "0.1",
               "--seed", "5", "--set", "floor=0.5", "--out", "child.keras", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    model = tfsm.load_model("m.keras")
    expected = tfsm.mutate(model, X, "sm-g-abs", 0.1, 5, floor=0.5)
    child = tfsm.load_model("child.keras")
    np.testing.assert_array_equal(tfsm.flatten(child), tfsm.flatten(expected))
    assert summary["options"] == {"floor": 0.5}
    [only] = summary["children"]
    assert only == {"file": "child.keras", "seed": 5, "divergence": pytest.approx(tfsm.divergence(model, child, X))}


def test_a_model_and_its_experience_are_enough(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "m.keras").rename(folder / "elsewhere" / "m.keras")
    done = run("mutate", "elsewhere/m.keras", "--experience", "x.npy")
    assert done.returncode == 0, done.stderr
    model, child = tfsm.load_model("elsewhere/m.keras"), tfsm.load_model("m-child.keras")
    variance = model(X.astype(np.float32)).numpy().var(axis=0).sum()
    assert tfsm.divergence(model, child, X) == pytest.approx(0.01 * variance, rel=0.051)
    again = run("mutate", "elsewhere/m.keras", "--experience", "x.npy")
    assert again.returncode == 2
    assert "m-child.keras already exists" in again.stderr


@pytest.mark.slow
def test_several_children_have_their_own_numbers_and_seeds(folder: Path) -> None:
    done = run("mutate", "m.keras", "--experience", "x.npy", "--mutation", "sm-r", "--intensity", "0.3",
               "--seed", "7", "--out", "c.keras", "--count", "11")  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["child", "seed", "divergence"]
    assert [row[:2] for row in rows[1:]] == [[f"c-{i:02d}.keras", str(7 + i)] for i in range(11)]
    # SM-R searches for the target divergence, within a hundredth.
    assert [float(row[2]) for row in rows[1:]] == pytest.approx([0.3] * 11, rel=0.011)
    genomes = [tfsm.flatten(tfsm.load_model(row[0])) for row in rows[1:4]]
    assert not np.array_equal(genomes[0], genomes[1])
    alone = run("mutate", "m.keras", "--experience", "x.npy", "--mutation", "sm-r", "--intensity", "0.3",
                "--seed", "9", "--out", "again.keras")  # fmt: skip
    assert alone.returncode == 0
    np.testing.assert_array_equal(tfsm.flatten(tfsm.load_model("again.keras")), genomes[2])
    assert not [path for path in folder.iterdir() if path.name.startswith(".")], "no temporary file is left"


def test_too_many_children_are_refused_immediately(folder: Path) -> None:
    done = run("mutate", "m.keras", "--experience", "x.npy", "--out", "c.keras", "--count", 10**9)
    assert done.returncode == 2
    assert "100000" in done.stderr


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_is_overwritten(count: int, folder: Path) -> None:
    taken = folder / ("c.keras" if count == 1 else "c-2.keras")
    taken.write_text("mine")
    done = run("mutate", "m.keras", "--experience", "x.npy", "--out", "c.keras", "--count", count)
    assert done.returncode == 2
    assert f"{taken.name} already exists and is never overwritten" in done.stderr
    assert taken.read_text() == "mine"
    assert {path.name for path in folder.iterdir()} == {"m.keras", "x.npy", taken.name}


@pytest.mark.sample(2)
@pytest.mark.parametrize("names", [("a", "b"), ("arr_0", "arr_1")])
def test_several_inputs_are_given_by_name_or_in_order(names: tuple[str, str], folder: Path) -> None:
    first, second = keras.Input((2,), name="a"), keras.Input((3,), name="b")
    outputs = kl.Add()([kl.Dense(2)(first), kl.Dense(2)(second)])
    keras.Model([first, second], outputs).save("two.keras")
    np.savez("two.npz", **{names[1]: X, names[0]: X[:, :2]})
    done = run("mutate", "two.keras", "--experience", "two.npz", "--out", "c.keras", "--json")
    assert done.returncode == 0, done.stderr
    model = tfsm.load_model("two.keras")
    expected = tfsm.mutate(model, {"a": X[:, :2], "b": X})
    np.testing.assert_array_equal(tfsm.flatten(tfsm.load_model("c.keras")), tfsm.flatten(expected))


def test_an_unreachable_divergence_is_reported(folder: Path) -> None:
    keras.Sequential([keras.Input((3,)), kl.Dense(2, "tanh")]).save("m.keras")
    done = run("mutate", "m.keras", "--experience", "x.npy", "--mutation", "sm-r", "--intensity", "1000",
               "--out", "c.keras")  # fmt: skip
    assert done.returncode == 0
    assert "warning: c.keras: sm-r: along some directions no magnitude gives a divergence of 1000" in done.stderr


def make_header_without_data(shape: tuple[int, ...]) -> bytes:
    """Return the header of an array without data."""
    return make_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}")


def make_header(text: str) -> bytes:
    """Return a header with this text, without data."""
    header = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


def list_invalid_experiences() -> dict[str, tuple[Any, str]]:
    return {
        "shape": (X[:, :2], "takes [N, 3], the experience has [6, 2]"),
        "nan": (np.where(X > 1, np.nan, X), "NaN or infinite"),
        "infinite": (np.full((2, 3), np.inf), "NaN or infinite"),
        "empty": (X[:0], "the experience is empty"),
        "objects": (np.array([[None] * 3], object), "unpickling runs any code"),
        "words": (np.array([["a"] * 3]), "must be numbers"),
        "petabytes": (
            make_header_without_data((10**9, 10**6)),
            "takes 4,000,000,000,000,000 bytes, the limit is 2,147,483,648",
        ),
        "a lie": (make_header_without_data((1000, 3)), "claims the shape (1000, 3), 12,000 bytes, but holds"),
        "cut": (b"\x93NUMPY", "not an array in NumPy's format"),
        "an unfinished header": (make_header("{'descr': '<f4', 'shape': ("), "not an array in NumPy's format"),
        "a header that is no expression": (make_header("}"), "not an array in NumPy's format"),
        "a header with a zero byte": (make_header("{\0}"), "not an array in NumPy's format"),
        "a header that unpacks nothing": (
            make_header("{'descr': 3, 'fortran_order': 0, 'shape': 5}"),
            "not an array in NumPy",
        ),
        "junk": (b"junk", "not an array in NumPy's format"),
    }


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", list_invalid_experiences())
def test_invalid_experience_is_reported(name: str, folder: Path) -> None:
    content, words = list_invalid_experiences()[name]
    if isinstance(content, bytes):
        (folder / "x.npy").write_bytes(content)
    else:
        np.save("x.npy", content, allow_pickle=True)
    for command in (["mutate", "--out", "c.keras"], ["sensitivity"]):
        done = run(command[0], "m.keras", "--experience", "x.npy", *command[1:])
        assert done.returncode == 2
        assert words in done.stderr
    assert not (folder / "c.keras").exists()


def test_a_damaged_archive_of_arrays_is_reported(folder: Path) -> None:
    np.savez("objects.npz", a=X, b=np.array([None], object))
    np.savez("one.npz", whatever=X)
    (folder / "junk.npz").write_bytes(b"junk")
    np.savez_compressed("torn.npz", a=X)
    torn = bytearray((folder / "torn.npz").read_bytes())
    torn[40:120] = bytes(80)  # within the compressed data, where zlib reports the error
    (folder / "torn.npz").write_bytes(torn)
    for file, words in (
        ("objects.npz", "b.npy: the experience must be numbers"),
        ("junk.npz", "cannot be read"),
        ("torn.npz", "a.npy: not an array in NumPy's format"),
    ):
        done = run("sensitivity", "m.keras", "--experience", file)
        assert done.returncode == 2
        assert words in done.stderr
    assert run("sensitivity", "m.keras", "--experience", "one.npz").returncode == 0


WRONG = {
    "no model": (["no.keras"], "no.keras: no such file"),
    "a legacy model": (["m.h5"], "a legacy HDF5 model"),
    "no experience": (["m.keras", "--experience", "no.npy"], "no.npy: no such file"),
    "experience of another kind": (["m.keras", "--experience", "x.csv"], "x.csv: an experience is a .npy file"),
    "operator": (["m.keras", "--mutation", "sm-gabs"], "did you mean 'sm-g-abs'?"),
    "option": (["m.keras", "--mutation", "sm-g-abs", "--set", "flor=1"], "flor: no such option, did you mean 'floor'"),
    "an argument for an option": (["m.keras", "--set", "seed=1"], "seed: no such option"),
    "no option": (["m.keras", "--set", "floor"], "expected key=value"),
    "intensity": (["m.keras", "--intensity", "-1"], "intensity: expected a number >= 0"),
    "ending": (["m.keras", "--out", "c.h5"], "c.h5: children are saved as .keras files"),
    "folder": (["m.keras", "--out", "no/c.keras"], "there is no directory 'no'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_reported(name: str, folder: Path) -> None:
    given, words = WRONG[name]
    defaults = {"--experience": "x.npy", "--out": "c.keras"}
    rest = [word for key, value in defaults.items() if key not in given for word in (key, value)]
    done = run("mutate", *given, *rest)
    assert done.returncode == 2
    assert words in done.stderr
    assert {path.name for path in folder.iterdir()} == {"m.keras", "x.npy"}


def test_code_in_a_model_needs_trust(folder: Path) -> None:
    keras.Sequential([keras.Input((3,)), kl.Dense(2), kl.Lambda(lambda x: x * 2)]).save("code.keras")
    for command in (["mutate", "code.keras", "--out", "c.keras"], ["sensitivity", "code.keras"]):
        refused = run(*command, "--experience", "x.npy")
        assert refused.returncode == 2
        assert "a layer of class Lambda" in refused.stderr
        assert "--trust-model" in refused.stderr
        assert run(*command, "--experience", "x.npy", "--trust-model").returncode == 0


def test_the_sensitivities_of_a_linear_model_are_exact(folder: Path) -> None:
    """SM-G-ABS on one linear layer: the mean absolute input, of each of two outputs."""
    keras.Sequential([keras.Input((3,)), kl.Dense(2, name="only")]).save("m.keras")
    x = np.array([[4.0, 0.0, 0.001], [2.0, 0.0, -0.003]])
    np.save("x.npy", x)
    done = run("sensitivity", "m.keras", "--experience", "x.npy", "--mutation", "sm-g-abs", "--json")
    assert done.returncode == 0, done.stderr
    [layer] = json.loads(done.stdout)["layers"]
    # The kernel's rows 3, 0 and 0.002, twice each, and two biases of 1.
    values = [3.0, 3.0, 0.0, 0.0, 0.002, 0.002, 1.0, 1.0]
    assert layer == {
        "name": "only",
        "weights": 8,
        "median": pytest.approx(np.median(values)),
        "low": pytest.approx(0.0),
        "high": pytest.approx(3.0),
        "zero": 0.25,
        "floored": 0.25,
        "guarded": 0.5,
    }
    text = run("sensitivity", "m.keras", "--experience", "x.npy", "--mutation", "sm-g-abs").stdout.splitlines()
    assert text[0].split() == ["layer", "weights", "median", "5%", "95%", "at", "0", "below", "0.01", "guarded"]
    assert text[1].split() == ["all", "layers", "8", "0.501", "0", "3", "25%", "25%", "50%"]


def test_layers_have_rows_and_histograms(folder: Path) -> None:
    done = run("sensitivity", "m.keras", "--experience", "x.npy", "--by-layer", "--plot", "p.png")
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
        ["hidden", "16"],
        ["out", "10"],
        ["all", "layers"],
    ]
    assert "wrote p.png" in done.stderr
    with Image.open(folder / "p.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))
    blue = (pixels == (0x00, 0x72, 0xB2)).all(-1)  # the colour of sm-g-sum
    half = pixels.shape[1] // 2
    assert blue[:, :half].any()
    assert blue[:, half:].any()
    assert run("sensitivity", "m.keras", "--experience", "x.npy", "--plot", "p.svg").returncode == 0
    assert (folder / "p.svg").read_text().lstrip().startswith("<?xml")


def test_mistakes_of_sensitivity_are_reported(folder: Path) -> None:
    assert (
        "measures no sensitivity" in run("sensitivity", "m.keras", "--experience", "x.npy", "--mutation", "sm-r").stderr
    )
    assert "ending in .png or .svg" in run("sensitivity", "m.keras", "--experience", "x.npy", "--plot", "p.txt").stderr
