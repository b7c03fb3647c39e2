from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfsm.errors import TfsmError
from tfsm_domains.dataset.arrays import Arrays, Examples, read_data

X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 2, 0, 1, 2])


def save(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return str(path)


def test_a_file_has_training_and_validation_data(tmp_path: Path) -> None:
    data = read_data(save(tmp_path / "d.npz", x=X, y=Y, x_validation=X[:2], y_validation=Y[:2]))
    np.testing.assert_array_equal(data.training.x, X)
    assert data.validation is not None
    np.testing.assert_array_equal(data.validation.y, Y[:2])


def test_inputs_of_several_are_named(tmp_path: Path) -> None:
    data = read_data(save(tmp_path / "d.npz", **{"x.left": X, "x.right": X + 1, "y": Y}))
    assert isinstance(data.training.x, dict)
    assert list(data.training.x) == ["left", "right"]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    for x in (X, {"a": X, "b": X[:, :1]}, (X, X[:, :1])):
        data = Arrays(Examples.of((x, Y), "data"), Examples.of((x, Y), "validation"))
        again = read_data(save(tmp_path / "d.npz", **data.as_dict()))
        assert again.digest == data.digest


def test_the_digest_depends_on_every_number() -> None:
    digest = Arrays(Examples(X, Y)).digest
    assert digest == Arrays(Examples(X.copy(), Y)).digest
    for other in (Examples(X + 1e-9, Y), Examples(X, Y[::-1]), Examples(X.reshape(6, 2, 1), Y)):
        assert Arrays(other).digest != digest


@pytest.mark.parametrize("labels", [True, False])
def test_the_last_column_of_a_table_is_y(tmp_path: Path, labels: bool) -> None:
    file = tmp_path / "d.csv"
    last = (0, 1) if labels else (0.5, 1.5)
    file.write_text(f"a,b,label\n1,2,{last[0]}\n\n3,4.5,{last[1]}\n")
    data = read_data(str(file)).training
    np.testing.assert_array_equal(data.x, [[1, 2], [3, 4.5]])
    np.testing.assert_array_equal(data.y, last)
    assert data.y.dtype.kind == ("i" if labels else "f")


def test_held_out_examples_are_not_in_the_training_data(tmp_path: Path) -> None:
    file = save(tmp_path / "d.npz", x=np.arange(100), y=np.arange(100))
    data = read_data(file, "0.2")
    assert data.validation is not None
    assert (len(data.training), len(data.validation)) == (80, 20)
    np.testing.assert_array_equal(np.sort(np.concatenate([data.training.y, data.validation.y])), np.arange(100))
    assert read_data(file, "0.2").digest == data.digest


def test_validation_data_may_be_another_file(tmp_path: Path) -> None:
    data = read_data(save(tmp_path / "d.npz", x=X, y=Y), save(tmp_path / "v.npz", x=X[:1], y=Y[:1]))
    assert data.validation is not None
    assert len(data.validation) == 1


def text(path: Path, content: str) -> str:
    path.write_text(content)
    return str(path)


WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no file": (lambda p: read_data("none.npz"), "none.npz: no such file"),
    "no table": (lambda p: read_data("none.csv"), "none.csv: no such file"),
    "kind of file": (lambda p: read_data("d.txt"), "data is a .npz file with arrays x and y, or a .csv file"),
    "single array": (lambda p: read_data("d.npy"), "save x and y together with np.savez"),
    "no archive": (lambda p: read_data(text(p / "d.npz", "no")), "cannot be read"),
    "pickle": (lambda p: read_data(save(p / "d.npz", x=X, y=np.array(["a", {}], object))), "data must be numbers"),
    "no y": (lambda p: read_data(save(p / "d.npz", x=X)), "there is no array y; it has x"),
    "no x": (lambda p: read_data(save(p / "d.npz", y=Y)), "there is no array x; it has y"),
    "half of validation": (
        lambda p: read_data(save(p / "d.npz", x=X, y=Y, x_validation=X)),
        "there is no array y_validation",
    ),
    "unknown array": (lambda p: read_data(save(p / "d.npz", x=X, y=Y, z=Y)), "unknown arrays z; expected x, y"),
    "x twice": (lambda p: read_data(save(p / "d.npz", **{"x": X, "x.a": X, "y": Y})), "both x and x.a"),
    "lengths": (lambda p: read_data(save(p / "d.npz", x=X, y=Y[:5])), "y has 5, x has 6"),
    "empty": (lambda p: Examples.of((X[:0], Y[:0]), "data"), "data: y is empty"),
    "nan in x": (lambda p: Examples.of((X * np.nan, Y), "data"), "data: x has NaN or infinite values"),
    "nan in y": (lambda p: Examples.of((X, Y / 0.0), "data"), "data: y has NaN or infinite values"),
    "text": (lambda p: Examples.of((X, list("abcdef")), "data"), "data: y must be numbers"),
    "ragged": (lambda p: Examples.of(([[1], [1, 2]], [1, 2]), "data"), "data: not an array"),
    "single number": (lambda p: Examples.of((X, 3), "data"), "y must be an array [N, ...]"),
    "no pair": (lambda p: Examples.of(X, "data"), "data: expected a pair (x, y) of arrays, got an array of shape"),
    "table of text": (lambda p: read_data(text(p / "d.csv", "1,2\n1,a\n")), "row 2: 'a' is not a number"),
    "empty cell": (lambda p: read_data(text(p / "d.csv", "1,2\n1,\n")), "row 2: '' is not a number"),
    "ragged table": (lambda p: read_data(text(p / "d.csv", "1,2\n1\n")), "row 2 has 1 columns, the first has 2"),
    "one column": (lambda p: read_data(text(p / "d.csv", "1\n2\n")), "at least two columns"),
    "empty table": (lambda p: read_data(text(p / "d.csv", "a,b\n")), "at least two columns"),
    "nan in a table": (lambda p: read_data(text(p / "d.csv", "1,2\nnan,3\n")), "x has NaN"),
    "share": (lambda p: read_data(save(p / "d.npz", x=X, y=Y), "1.5"), "a share between 0 and 1"),
    "tiny share": (lambda p: read_data(save(p / "d.npz", x=X, y=Y), "0.01"), "none would be left"),
    "validation twice": (
        lambda p: read_data(save(p / "d.npz", x=X, y=Y, x_validation=X, y_validation=Y), "0.5"),
        "has validation data already",
    ),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_wrong_data_is_reported_in_one_line(name: str, tmp_path: Path) -> None:
    call, message = WRONG[name]
    with pytest.raises(TfsmError) as caught:
        call(tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
