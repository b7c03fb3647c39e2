"""Turns arrays into model inputs: experience and data from the user, and from `.npy` and `.npz` files."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from tfsm.errors import TfsmError
from tfsm.interfaces import Tensor
from tfsm.models.names import MAX_BYTES, summarize_error

if TYPE_CHECKING:
    import keras


def prepare_inputs(model: keras.Model, experience: Any) -> list[Tensor]:
    """Return the experience as tensors `[N, ...]` in the model's order of inputs.

    Args:
        model: a built model.
        experience: an array `[N, ...]`, or for a model with several inputs a list, tuple or dict of them.
    """
    import tensorflow as tf

    return [tf.convert_to_tensor(array) for array in prepare_arrays(model, experience)]


def prepare_arrays(model: keras.Model, inputs: Any, what: str = "the experience") -> list[np.ndarray]:
    """Return inputs as arrays `[N, ...]` of the model's types, in its order of inputs.

    Args:
        model: a built model.
        inputs: an array `[N, ...]`, or for a model with several inputs a list, tuple or dict of them.
        what: the name of the inputs in messages.
    """
    specs = _input_specs(model)
    arrays = _as_arrays(inputs, [name for name, _, _ in specs], what)
    if specs and len(arrays) != len(specs):
        raise TfsmError(f"the model takes {len(specs)} inputs, {what} has {len(arrays)}")
    if len({len(array) for array in arrays}) > 1:
        sizes = ", ".join(str(len(array)) for array in arrays)
        raise TfsmError(f"all inputs of {what} must have the same length, got {sizes}")
    prepared = []
    for i, array in enumerate(arrays):
        name, shape, dtype = specs[i] if specs else ("", None, "float32")
        prepared.append(_check_input(array, name, shape, dtype, what))
    return prepared


def _input_specs(model: keras.Model) -> list[tuple[str, tuple[int | None, ...] | None, str]]:
    inputs = getattr(model, "inputs", None)
    if not inputs:  # a subclassed model
        return []
    import keras
    import tensorflow as tf

    return [(x.name, tuple(x.shape), keras.backend.standardize_dtype(x.dtype)) for x in tf.nest.flatten(inputs)]


def _as_arrays(inputs: Any, names: list[str], what: str) -> list[np.ndarray]:
    if isinstance(inputs, Mapping):
        if names and set(inputs) != set(names):
            raise TfsmError(f"the model's inputs are {', '.join(names)}; {what} has {', '.join(inputs)}")
        parts = [inputs[name] for name in names] if names else list(inputs.values())
    elif isinstance(inputs, tuple) or (isinstance(inputs, Sequence) and len(names) > 1):
        parts = list(inputs)
    else:
        parts = [inputs]
    try:
        arrays = [np.asarray(part) for part in parts]
    except ValueError as error:
        raise TfsmError(f"{what} is not an array: {error}") from None
    for array in arrays:
        if array.dtype.kind not in "biuf":
            raise TfsmError(f"{what} must be numbers, got an array of {array.dtype}{_text_hint(array)}")
        if array.ndim == 0:
            raise TfsmError(f"{what} must be an array [N, ...] of inputs, got a single number")
    return arrays


def _text_hint(array: np.ndarray) -> str:
    if array.dtype.kind not in "USO":
        return ""
    return (
        ": run the layers that take text (TextVectorization, StringLookup) separately, and mutate the rest of the "
        "model, which takes numbers"
    )


def _check_input(
    array: np.ndarray, name: str, shape: tuple[int | None, ...] | None, dtype: str, what: str
) -> np.ndarray:
    if array.shape[0] == 0:
        raise TfsmError(f"{what} is empty: give at least one input of the network")
    if shape is not None:
        if array.ndim == len(shape) - 1 and shape[-1] == 1:  # like Keras
            array = array[..., None]
        fits = array.ndim == len(shape) and all(w in (None, g) for w, g in zip(shape[1:], array.shape[1:], strict=True))
        if not fits:
            expected = ", ".join("N" if i == 0 else ("any" if w is None else str(w)) for i, w in enumerate(shape))
            raise TfsmError(f"input {name!r} of the model takes [{expected}], {what} has {list(array.shape)}")
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        cast = array.astype(dtype)
    for values in (array, cast):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise TfsmError(f"{what} has NaN or infinite values, or values too large for {dtype}")
    return cast


UNNAMED: Final = re.compile(r"arr_(\d+)")
"""The name that `np.savez` gives to an unnamed array."""


def read_experience(path: str | Path) -> Any:
    """Read inputs `[N, ...]` from a `.npy` file, or for a model with several inputs from a `.npz` file.

    Args:
        path: the file; the arrays in a `.npz` file have the inputs' names, or are `arr_0`, `arr_1` and so on.

    Returns:
        An array, a tuple of arrays, or a dict by input.
    """
    file = Path(path)
    if file.suffix not in (".npy", ".npz"):
        raise TfsmError(f"{file}: an experience is a .npy file, or a .npz file for a model with several inputs")
    if file.suffix == ".npz":
        return _arrange(read_arrays(file))
    with _explain_read_errors(file):
        with file.open("rb") as stream:
            _check(stream, f"{file}", file.stat().st_size, "the experience")
        return np.load(file, allow_pickle=False)


def read_arrays(file: Path, what: str = "the experience") -> dict[str, np.ndarray]:
    """Read the arrays of a `.npz` file by name; none but numbers, which the file really holds.

    Args:
        file: the file.
        what: the name of its content in messages.
    """
    with _explain_read_errors(file):
        _check_archive(file, what)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


@contextmanager
def _explain_read_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise TfsmError(f"{file}: no such file") from None
    except TfsmError:
        raise
    except Exception as error:  # NumPy, zipfile and zlib raise many kinds of errors for a broken file
        raise TfsmError(f"{file}: cannot be read: {summarize_error(error)}") from None


def _check(stream: IO[bytes], name: str, held: int, what: str) -> int:
    """Raise an error unless this is an array of numbers that the file really holds; return its size in bytes."""
    from tfsm.models.safe_loading import read_header

    header = read_header(stream, name)
    if header.dtype.kind not in "biuf":
        pickled = ": they are pickled, and unpickling runs any code that the file names" * header.dtype.hasobject
        raise TfsmError(f"{name}: {what} must be numbers, got an array of {header.dtype}{pickled}")
    if header.nbytes > MAX_BYTES:
        raise TfsmError(
            f"{name}: an array of shape {header.shape} takes {header.nbytes:,} bytes, the limit is {MAX_BYTES:,}: "
            "use fewer inputs"
        )
    if header.nbytes > held:
        raise TfsmError(f"{name}: claims the shape {header.shape}, {header.nbytes:,} bytes, but holds only {held:,}")
    return header.nbytes


def _check_archive(file: Path, what: str) -> None:
    total = 0
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                total += _check(stream, f"{file}: {member.filename}", member.file_size, what)
    if total > MAX_BYTES:
        raise TfsmError(f"{file}: takes {total:,} bytes, the limit is {MAX_BYTES:,}: use fewer inputs")


def _arrange(arrays: dict[str, np.ndarray]) -> Any:
    numbers = {name: UNNAMED.fullmatch(name) for name in arrays}
    if len(arrays) == 1:  # the name does not matter
        return next(iter(arrays.values()))
    if arrays and all(numbers.values()):
        return tuple(arrays[name] for name in sorted(arrays, key=lambda name: int(name.removeprefix("arr_"))))
    return arrays
