"""Arrays of examples: reading, checking and dividing them into training and validation data."""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from tfsm.errors import TfsmError
from tfsm.models.inputs import read_arrays
from tfsm.models.names import summarize_error

Inputs = np.ndarray | Mapping[str, np.ndarray] | tuple[np.ndarray, ...]
"""The inputs `[N, ...]`; several by name or in order for a network with several."""

SPLIT_SEED: Final = 0
"""Of the examples that are held out: the same for every run of every experiment."""


@dataclass(frozen=True)
class Examples:
    """Inputs `[N, ...]` with their targets `[N, ...]`."""

    x: Inputs
    y: np.ndarray

    def __post_init__(self) -> None:
        """Check that there are examples, that all arrays have as many, and that targets are finite numbers."""
        parts = {"y": self.y, **name_inputs(self.x)}
        for name, array in parts.items():
            if array.dtype.kind not in "biuf":
                raise TfsmError(f"{name} must be numbers, got an array of {array.dtype}")
            if array.ndim == 0:
                raise TfsmError(f"{name} must be an array [N, ...], got a single number")
            if len(array) == 0:
                raise TfsmError(f"{name} is empty: give at least one example")
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise TfsmError(f"{name} has NaN or infinite values")
        if len({len(array) for array in parts.values()}) > 1:
            sizes = ", ".join(f"{name} has {len(array):,}" for name, array in parts.items())
            raise TfsmError(f"x and y must have the same number of examples: {sizes}")

    @classmethod
    def of(cls, pair: Any, what: str) -> Self:
        """Return the examples of a pair `(x, y)` from the user."""
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TfsmError(f"{what}: expected a pair (x, y) of arrays, got {_describe(pair)}")
        x, y = pair
        try:
            if isinstance(x, Mapping):
                return cls({str(name): np.asarray(part) for name, part in x.items()}, np.asarray(y))
            if isinstance(x, tuple):
                return cls(tuple(np.asarray(part) for part in x), np.asarray(y))
            return cls(np.asarray(x), np.asarray(y))
        except TfsmError as error:
            raise TfsmError(f"{what}: {error}") from None
        except ValueError as error:
            raise TfsmError(f"{what}: not an array: {summarize_error(error)}") from None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: np.ndarray) -> Self:
        """Return some of the examples."""
        if isinstance(self.x, Mapping):
            return type(self)({name: part[index] for name, part in self.x.items()}, self.y[index])
        if isinstance(self.x, tuple):
            return type(self)(tuple(part[index] for part in self.x), self.y[index])
        return type(self)(self.x[index], self.y[index])


def _describe(value: Any) -> str:
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def name_inputs(x: Inputs, prefix: str = "x") -> dict[str, np.ndarray]:
    """Return the input arrays by the names that they have in a file: `x`, or `x.NAME` for each of several."""
    if isinstance(x, Mapping):
        return {f"{prefix}.{name}": part for name, part in x.items()}
    if isinstance(x, tuple):
        return {f"{prefix}.{i}": part for i, part in enumerate(x)}
    return {prefix: x}


@dataclass(frozen=True, eq=False)
class Arrays:
    """The data of a task: examples for selection, and for validation if there are any."""

    training: Examples
    validation: Examples | None = None

    @property
    def digest(self) -> str:
        """A digest of all arrays, which identifies the data in settings."""
        digest = hashlib.sha256()
        for name, array in self.as_dict().items():
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return f"sha256:{digest.hexdigest()}"

    def as_dict(self) -> dict[str, np.ndarray]:
        """Return the arrays as a `.npz` file has them."""
        arrays = {**name_inputs(self.training.x), "y": self.training.y}
        if self.validation is not None:
            arrays |= {**name_inputs(self.validation.x, "x_validation"), "y_validation": self.validation.y}
        return arrays

    def hold_out(self, share: float) -> Arrays:
        """Return arrays with a share of the training examples as validation data, drawn at random."""
        count = round(share * len(self.training))
        if not 0 < count < len(self.training):
            raise TfsmError(f"validation={share:g} of {len(self.training):,} examples is {count}: none would be left")
        order = np.random.default_rng(SPLIT_SEED).permutation(len(self.training))
        return Arrays(self.training.take(np.sort(order[count:])), self.training.take(np.sort(order[:count])))


def read_data(data: str, validation: str | None = None) -> Arrays:
    """Read the data of a task.

    Args:
        data: a `.npz` or `.csv` file.
        validation: another file with validation data, or the share of the examples to hold out.
    """
    arrays = _read_file(data)
    if validation is None:
        return arrays
    if arrays.validation is not None:
        raise TfsmError(f"validation={validation}: {data} has validation data already; give one or the other")
    try:
        share = float(validation)
    except ValueError:
        return Arrays(arrays.training, _read_file(validation).training)
    if not 0 < share < 1:
        raise TfsmError(f"validation={validation}: expected a file, or a share between 0 and 1")
    return arrays.hold_out(share)


def _read_file(name: str) -> Arrays:
    file = Path(os.path.expanduser(name))
    if file.suffix not in (".npz", ".csv"):
        hint = ": save x and y together with np.savez" if file.suffix == ".npy" else ""
        raise TfsmError(f"{file}: data is a .npz file with arrays x and y, or a .csv file{hint}")
    arrays = read_arrays(file, "data") if file.suffix == ".npz" else _read_table(file)
    known = ("x", "y", "x_validation", "y_validation")
    if unknown := [key for key in arrays if key.partition(".")[0] not in known]:
        raise TfsmError(f"{file}: unknown arrays {', '.join(unknown)}; expected {', '.join(known)}")
    try:
        training = _examples(arrays, "")
        has_validation = any(key.partition(".")[0].endswith("_validation") for key in arrays)
        return Arrays(training, _examples(arrays, "_validation") if has_validation else None)
    except TfsmError as error:
        raise TfsmError(f"{file}: {error}") from None


def _examples(arrays: Mapping[str, np.ndarray], suffix: str) -> Examples:
    x, y = f"x{suffix}", f"y{suffix}"
    several = {key.partition(".")[2]: array for key, array in arrays.items() if key.startswith(f"{x}.")}
    for name, there in ((x, x in arrays or bool(several)), (y, y in arrays)):
        if not there:
            raise TfsmError(f"there is no array {name}; it has {', '.join(arrays) or 'none'}")
    if x in arrays and several:
        raise TfsmError(f"it has both {x} and {x}.{next(iter(several))}; name all inputs of several, or none")
    if several and all(name.isdigit() for name in several):
        return Examples(tuple(several[name] for name in sorted(several, key=int)), arrays[y])
    return Examples(several or arrays[x], arrays[y])


def _read_table(file: Path) -> dict[str, np.ndarray]:
    """Read a table of numbers; the last column is y. A first line that is not numbers names the columns."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else summarize_error(error)
        raise TfsmError(f"{file}: {reason}") from None
    if rows and not all(map(_is_number, rows[0])):
        del rows[0]
    if not rows or len(rows[0]) < 2:
        raise TfsmError(f"{file}: expected a table of at least two columns, the last of which is y")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise TfsmError(f"{file}: row {number} has {len(row)} columns, the first has {len(rows[0])}")
        wrong = [cell for cell in row if not _is_number(cell)]
        if wrong:
            raise TfsmError(f"{file}: row {number}: {wrong[0]!r} is not a number")
    table = np.array(rows, np.float64)
    y = table[:, -1]
    labels = all(_is_integer(row[-1]) for row in rows)
    return {"x": table[:, :-1], "y": y.astype(np.int64) if labels else y}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_integer(text: str) -> bool:
    return text.strip().removeprefix("-").isdigit()
