"""Checks a model file before Keras loads it: code, links to other files, and sizes that exhaust memory are refused.

The archive's members, the configuration and the headers of the weights are inspected; no code of the file runs.
"""

from __future__ import annotations

import copy
import json
import math
import random
import re
import shutil
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, Any, Final

import h5py
import numpy as np

from tfsm.errors import TfsmError
from tfsm.models.names import MAX_BYTES, RefusedError, quote, summarize_error

MAX_GROWTH: Final = 100
"""Maximum ratio of unpacked to stored size; Keras does not compress at all."""
ALWAYS_ALLOWED_BYTES: Final = 2**24
"""Data up to this size may have any ratio."""
MAX_MEMBERS: Final = 10_000
MAX_CONFIG_BYTES: Final = 2**26
"""Maximum size of a configuration."""
MAX_DEPTH: Final = 200
"""Maximum nesting of a configuration."""


def is_bomb(size: int, stored: int) -> bool:
    """Return whether unpacked data are suspiciously larger than stored."""
    return size > max(ALWAYS_ALLOWED_BYTES, MAX_GROWTH * stored)


@dataclass(frozen=True)
class Header:
    """The header of an array in NumPy's format."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """The array's size in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes], name: str) -> Header:
    """Read a header only; afterwards the stream is at the first number."""
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    except Exception as error:  # a header is a Python expression, and a broken one raises many kinds of errors
        raise TfsmError(f"{name}: not an array in NumPy's format ({summarize_error(error)})") from None
    if any(length < 0 for length in shape):
        raise TfsmError(f"{name}: not an array in NumPy's format (shape {shape})")
    return Header(shape, dtype)


def check_not_pickled(header: Header, name: str) -> None:
    """Raise an error for an array of Python objects."""
    if header.dtype.hasobject:
        raise RefusedError(
            f"{name} of Python objects", "they are pickled, and unpickling runs any code that the file names"
        )


def check_arrays(stream: IO[bytes], name: str) -> None:
    """Raise an error for an `.npz` file with Python objects, or one that could exhaust memory."""
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > MAX_BYTES:
            raise RefusedError(f"{name} of {total:,} bytes unpacked", f"above {MAX_BYTES:,} it could exhaust memory")
        for member in members:
            with archive.open(member) as inner:
                header = read_header(inner, f"{name}: {member.filename}")
            check_not_pickled(header, name)
            if header.nbytes > member.file_size:
                raise RefusedError(f"{name} with a shape of {header.shape}", "it claims more than the file holds")


def check_size(config: dict[str, Any]) -> None:
    """Raise an error for a configuration with more weights than fit into memory.

    Args:
        config: a configuration that passed `check_config`, because it is built here.
    """
    total = measure_weights(config)
    if total > MAX_BYTES:
        raise RefusedError(
            f"a model of {total:,} bytes of weights", f"above {MAX_BYTES:,} building it could exhaust memory"
        )


def measure_weights(config: dict[str, Any]) -> int:
    """Return the size of a model's variables in bytes."""
    import keras
    import tensorflow as tf

    # Keras draws default seeds from Python's global generator; restore the state of the user's program.
    state = random.getstate()
    try:
        # In a graph that never runs, variables have shapes but no values.
        with tf.Graph().as_default():
            model = keras.saving.deserialize_keras_object(copy.deepcopy(config), safe_mode=True)
            variables = getattr(model, "variables", ())
            return sum(
                math.prod(v.shape) * tf.as_dtype(keras.backend.standardize_dtype(v.dtype)).size for v in variables
            )
    finally:
        random.setstate(state)


OTHER_FILES: Final = "it can read other files of this machine into the model"


def check_weights(stream: IO[bytes], name: str) -> None:
    """Raise an error for links, external data, and more bytes than fit into memory; no weights are read.

    Args:
        stream: the HDF5 file.
        name: its name in messages.
    """
    try:
        with h5py.File(stream, "r") as file:
            total = _check_group(file, name)
    except TfsmError:
        raise
    except Exception as error:  # h5py raises many kinds of errors for a broken file
        raise TfsmError(
            f"cannot load the model: {name} are not a readable HDF5 file ({summarize_error(error)})"
        ) from None
    if total > MAX_BYTES:
        raise RefusedError(f"{name} of {total:,} bytes", f"above {MAX_BYTES:,} they could exhaust memory")


def _check_group(root: h5py.Group, name: str) -> int:
    """Check everything below a group once, and return the size of all data in bytes."""
    total, groups, seen = 0, [root], set()
    while groups:
        group = groups.pop()
        for key in group:
            place = f"{group.name.rstrip('/')}/{key}"
            # With getlink=True, h5py returns the link itself and does not follow it.
            link = group.get(key, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise RefusedError(f"{name}: {type(link).__name__} at {quote(place)}", f"a link; {OTHER_FILES}")
            child = group[key]
            address = h5py.h5o.get_info(child.id).addr
            if address in seen:
                continue
            seen.add(address)
            if isinstance(child, h5py.Group):
                groups.append(child)
            elif isinstance(child, h5py.Dataset):
                total += _check_data(child, f"{name}: data at {quote(place)}")
    return total


def _check_data(data: h5py.Dataset, name: str) -> int:
    if data.external:
        raise RefusedError(f"{name} stored in {quote(data.external[0][0])}", f"an external file; {OTHER_FILES}")
    if data.is_virtual:
        raise RefusedError(f"{name}, a virtual dataset", f"it is made of other files; {OTHER_FILES}")
    if data.shape is None:
        return 0
    if data.dtype.hasobject:
        raise RefusedError(f"{name} of type {data.dtype}", "weights must be numbers; nothing else is safe to read")
    size = math.prod(data.shape) * data.dtype.itemsize
    stored = data.id.get_storage_size()
    if size > MAX_BYTES or is_bomb(size, stored):
        raise RefusedError(
            f"{name} of shape {data.shape}, {size:,} bytes of which {stored:,} are stored",
            "a shape bomb; reading it could exhaust memory",
        )
    return size


CONFIG: Final = "config.json"
MAX_BYTES_IN_MEMORY: Final = 2**27
"""Maximum size of a member that is copied into memory for its check."""
PICKLES: Final = (".pkl", ".pickle", ".joblib", ".dill", ".pt", ".pth")
TOO_LARGE: Final = "unpacking it could exhaust memory"


def read_archive(file: Path) -> dict[str, Any]:
    """Check the members of an archive, and return the model's configuration.

    Args:
        file: the archive; nothing in it runs.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            _check_members(archive.infolist())
            for member in archive.infolist():
                _check_content(archive, member)
            return _config(archive)
    except TfsmError:
        raise
    except Exception as error:  # zipfile raises many kinds of errors for a broken archive
        raise TfsmError(f"cannot load the model: not a .keras archive of Keras 3 ({summarize_error(error)})") from error


def _check_members(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise RefusedError(f"an archive of {len(members):,} members", f"a model has at most {MAX_MEMBERS:,}")
    names = Counter(member.filename for member in members)
    for member in members:
        name = member.filename
        if escapes_folder(name):
            raise RefusedError(f"the member {quote(name)}", "it would be written outside of its folder")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise RefusedError(f"the member {quote(name)}", "a symbolic link can point to any file of this machine")
        if names[name] > 1:
            raise RefusedError(f"two members named {quote(name)}", "the checked one may not be the loaded one")
        if is_bomb(member.file_size, member.compress_size):
            raise RefusedError(
                f"the member {quote(name)} of {member.file_size:,} bytes, {member.compress_size:,} of them stored",
                f"a decompression bomb, {TOO_LARGE}",
            )
    total = sum(member.file_size for member in members)
    if total > MAX_BYTES:
        raise RefusedError(f"an archive of {total:,} bytes unpacked", f"above {MAX_BYTES:,} {TOO_LARGE}")


def escapes_folder(name: str) -> bool:
    r"""Return whether a path is absolute, leads upwards, or is a URL, on any system.

    >>> [escapes_folder(name) for name in ("assets/a.txt", "/etc/passwd", "a/../b", "C:\\x", "gs://bucket", "...d")]
    [False, True, True, True, True, False]
    """
    parts = re.split(r"[/\\]", name)
    return name.startswith(("/", "\\", "~")) or ".." in parts or bool(re.match(r"[A-Za-z]:[/\\]|[\w+.-]+://", name))


def _check_content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    path = PurePosixPath(member.filename)
    ending, name = path.suffix.lower(), quote(member.filename)
    if ending in PICKLES:
        raise RefusedError(f"the member {name}", "unpickling runs any code that the file names")
    if path.name == "saved_model.pb":
        raise RefusedError(f"the SavedModel {name}", "its graph can read and write files")
    if ending in (".h5", ".hdf5"):
        with _seekable(archive, member) as stream:
            check_weights(stream, f"the weights {name}")
    elif ending == ".npy":
        with archive.open(member) as stream:
            header = read_header(stream, member.filename)
        check_not_pickled(header, f"the array {name}")
        if header.nbytes > member.file_size:
            raise RefusedError(
                f"the array {name} of shape {header.shape}", f"it claims more than it holds, {TOO_LARGE}"
            )
    elif ending == ".npz":
        with _seekable(archive, member) as stream:
            check_arrays(stream, f"the arrays {name}")


@contextmanager
def _seekable(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    # Seeking back in a member reads it from the start again, so copy it once, a large one to disk.
    make: Callable[[], IO[bytes]] = BytesIO if member.file_size <= MAX_BYTES_IN_MEMORY else TemporaryFile
    with make() as copy:
        with archive.open(member) as stream:
            shutil.copyfileobj(stream, copy, 2**20)
        copy.seek(0)
        yield copy


def _config(archive: zipfile.ZipFile) -> dict[str, Any]:
    try:
        member = archive.getinfo(CONFIG)
    except KeyError:
        raise TfsmError(f"cannot load the model: the archive has no {CONFIG}") from None
    if member.file_size > MAX_CONFIG_BYTES:
        raise RefusedError(
            f"a {CONFIG} of {member.file_size:,} bytes", f"above {MAX_CONFIG_BYTES:,} it could exhaust memory"
        )
    try:
        config = json.loads(archive.read(member))
    except RecursionError:
        raise RefusedError(f"a {CONFIG} nested too deeply", "reading it overflows the stack") from None
    except ValueError as error:
        raise TfsmError(f"cannot load the model: its {CONFIG} is not JSON ({error})") from None
    if not isinstance(config, dict):
        raise TfsmError(f"cannot load the model: its {CONFIG} describes no model")
    return config


CODE: Final = "it contains Python code, which runs when the model is loaded or called"
FUNCTION_MODULES: Final = (
    "activations",
    "constraints",
    "initializers",
    "losses",
    "metrics",
    "optimizers",
    "regularizers",
)
"""Modules of Keras whose functions are found by their bare names."""
MODEL_MODULES: Final = frozenset(
    (*FUNCTION_MODULES, "dtype_policies", "layers", "models", "ops", "quantizers", "random")
)
"""Modules of Keras that contain only parts of models."""
FORBIDDEN: Final = {
    "Lambda": CODE,
    "TFSMLayer": "it loads a SavedModel from a path of the file's choice, whose graph can read and write files",
    "TorchModuleWrapper": "it unpickles a PyTorch module, which runs any code that the file names",
    "JaxLayer": "it calls functions that the file names",
    "FlaxLayer": "it calls functions that the file names",
}
FILE_SETTINGS: Final = ("filepath", "idf_weights", "vocabulary")
"""Settings of Keras layers that name a file if they are strings."""
DATA_CLASSES: Final = ("__bytes__", "__numpy__", "__tensor__")
"""Classes whose values are data, whatever they look like."""
KERAS_CLASSES: Final = (*DATA_CLASSES, "__ellipsis__", "__keras_tensor__", "__slice__")
"""Classes that Keras creates itself, without looking up a class."""
UNREGISTERED: Final = "it is not part of Keras and not registered here; loading the model could run it"
REGISTER_HINT: Final = (
    "If it is yours, import the module that registers it (keras.saving.register_keras_serializable) before loading"
)


def check_config(config: dict[str, Any]) -> None:
    """Raise an error for code, unknown classes and functions, and paths to other files."""
    # The training configuration is not loaded, but code in it would show the purpose of the file.
    compiled = config.get("compile_config")
    for _ in _objects({"compile_config": compiled}):
        pass
    for node in _objects({key: value for key, value in config.items() if key != "compile_config"}):
        _check_object(node)


def _objects(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each dict with a class name, and check everything on the way: code, paths, depth."""
    waiting: list[tuple[str, Any, int, bool]] = [("", config, 0, False)]
    while waiting:
        key, value, depth, is_data = waiting.pop()
        if depth > MAX_DEPTH:
            raise RefusedError(f"a configuration nested deeper than {MAX_DEPTH}", "reading it overflows the stack")
        if isinstance(value, str) and not is_data:
            _check_text(key, value)
        elif isinstance(value, list):
            # A vocabulary may contain any words; an item with settings of its own is not a word.
            words = is_data or key == "vocabulary"
            waiting += ((key, item, depth + 1, words and not isinstance(item, dict)) for item in value)
        elif isinstance(value, dict):
            name = value.get("class_name")
            _check_code(value)
            if isinstance(name, str):
                yield value
            for inner, item in value.items():
                data = name in DATA_CLASSES and inner == "config" if isinstance(item, dict) else is_data
                waiting.append((inner, item, depth + 1, data))


def _check_text(key: str, text: str) -> None:
    if key in FILE_SETTINGS:
        raise RefusedError(
            f"{_key(key)} = {quote(text)}",
            "it names a file or a URL, whose content would be read into the model",
        )
    if escapes_folder(text):
        raise RefusedError(f"{_key(key)} = {quote(text)}", "a path or URL outside of the model's file could be read")


def _key(key: str) -> str:
    # The names of settings come from the file, too.
    return key if key.isidentifier() else quote(key)


def _check_code(node: dict[str, Any]) -> None:
    names = [node.get("class_name"), node.get("registered_name")]
    if "__lambda__" in names:
        raise RefusedError("a serialized lambda", CODE)
    for name in names:
        # A name may have a package in front: "package>Lambda".
        short = name.rpartition(">")[2] if isinstance(name, str) else ""
        if short in FORBIDDEN:
            raise RefusedError(f"a layer of class {short} ({_label(node)})", FORBIDDEN[short])


def _label(node: dict[str, Any]) -> str:
    inner = node.get("config")
    return quote(inner.get("name", "") if isinstance(inner, dict) else node.get("name", ""))


def _check_object(node: dict[str, Any]) -> None:
    name, module = node["class_name"], node.get("module")
    if name == "function":
        _check_function(node.get("config"), module)
    elif name == "__typespec__":
        raise RefusedError(f"a type of module {quote(module)}", "loading it would import the module")
    elif name in KERAS_CLASSES or "module" not in node or is_registered(node.get("registered_name", name)):
        # Without a module, Keras searches its own layers only.
        return
    elif not is_model_module(module) or not _is_class(module, name):
        raise RefusedError(f"the class {quote(name)} of module {quote(module)}", UNREGISTERED, REGISTER_HINT)


def _check_function(name: Any, module: Any) -> None:
    import keras

    if is_registered(name):
        return
    # A name with dots could lead from a harmless module to any other.
    if isinstance(name, str) and name.isidentifier():
        found = any(hasattr(getattr(keras, place), name) for place in FUNCTION_MODULES)
        if (module in (None, "builtins") and found) or module in (
            f"keras.{place}" for place in (*FUNCTION_MODULES, "ops")
        ):
            return
    raise RefusedError(f"the function {quote(name)} of module {quote(module)}", UNREGISTERED, REGISTER_HINT)


def _is_class(module: Any, name: str) -> bool:
    """Return whether a name is not a public function of Keras; Keras itself checks names that are not public."""
    if not name.isidentifier():
        return False
    import keras

    place: Any = keras
    for part in (*module.split(".")[1:], name):
        place = getattr(place, part, None)
    return place is None or isinstance(place, type)


def is_registered(name: Any) -> bool:
    """Return whether this name is registered in this process."""
    import keras

    return isinstance(name, str) and keras.saving.get_registered_object(name) is not None


def is_model_module(module: Any) -> bool:
    """Return whether a module of Keras contains parts of models.

    >>> [is_model_module(m) for m in ("keras", "keras.layers", "keras.src.ops.numpy", "keras.utils", "kerashack", "os")]
    [True, True, True, False, False, False]
    """
    if not isinstance(module, str):
        return False
    first, *rest = module.split(".")
    inner = rest[1:] if rest[:1] == ["src"] else rest
    return first == "keras" and (not rest or (bool(inner) and inner[0] in MODEL_MODULES))
