"""Files that try to execute code when loaded: one test for each class of published vulnerabilities of Keras."""

from __future__ import annotations

import json
import pickle
import re
import stat
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.models.tampering import (
    Config,
    get_refusal,
    read_members_without,
    save_members,
    save_with_config,
    save_with_member,
    save_with_weights,
)
from tfsm.errors import TfsmError
from tfsm.models import safe_loading
from tfsm.models.loading import load_model


def make_marking_code(marker: Path) -> Callable[[Any], Any]:
    """Return code that creates a marker file when it is executed."""
    path = str(marker)
    return lambda x: (__import__("pathlib").Path(path).touch(), x)[1]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


def lambda_model(file: Path, marker: Path) -> Path:
    model = keras.Sequential([keras.Input((2,)), kl.Dense(2), kl.Lambda(make_marking_code(marker))])
    model.save(file)
    marker.unlink()
    return file


def test_a_lambda_layer_is_not_executed(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2024-3660: the code of a Lambda layer."""
    file = lambda_model(tmp_path / "lambda.keras", marker)
    message = get_refusal(file, monkeypatch)
    assert "a layer of class Lambda ('lambda" in message
    assert "it contains Python code" in message
    assert not marker.exists()
    load_model(file, trust=True)
    assert marker.exists(), "the file was a real one"


@pytest.mark.parametrize("place", ["activation", "kernel_initializer"])
def test_code_in_other_layers_is_not_executed(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2024-3660: the same code, in another layer's configuration."""
    code = {"class_name": "__lambda__", "config": {"value": "AAAA"}}
    file = save_with_config(tmp_path / "model.keras", lambda layers: layers[1]["config"].update({place: code}))
    assert "a serialized lambda: it contains Python code" in get_refusal(file, monkeypatch)


@pytest.mark.parametrize("wrapping", ["legacy", "nested", "package", "hidden in data"])
def test_a_lambda_layer_cannot_hide(wrapping: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code: Config = {"class_name": "Lambda", "config": {"name": "inner", "function": ["AAAA", None, None]}}
    wrapped = {
        "legacy": code,
        "nested": {"module": "keras.layers", "class_name": "TimeDistributed", "config": {"layer": code}},
        "package": code | {"module": "keras.layers", "class_name": "x", "registered_name": "Custom>Lambda"},
        "hidden in data": {"class_name": "__numpy__", "inner": code},
    }[wrapping]
    file = save_with_config(tmp_path / "model.keras", lambda layers: layers.append(wrapped))
    assert "a layer of class Lambda" in get_refusal(file, monkeypatch)


def function(module: str | None, name: str) -> Config:
    return {"module": module, "class_name": "function", "config": name, "registered_name": "function"}


@pytest.mark.parametrize("kind", ["class", "function"])
def test_no_module_is_imported(kind: str, tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-1550: a configuration that names any module, which is imported, and any function of it."""
    (tmp_path / "imported_by_a_model.py").write_text(f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n")
    monkeypatch.syspath_prepend(tmp_path)
    named = function("imported_by_a_model", "run")
    if kind == "class":
        named |= {"class_name": "Evil", "config": {}, "registered_name": "Evil"}
    file = save_with_config(tmp_path / "model.keras", lambda layers: layers[1]["config"].update(activation=named))
    message = get_refusal(file, monkeypatch)
    assert f"the {kind} '{'Evil' if kind == 'class' else 'run'}' of module 'imported_by_a_model'" in message
    assert "imported_by_a_model" not in sys.modules
    assert not marker.exists()


GADGETS = {
    "a download": function("keras.utils", "get_file"),  # CVE-2025-8747
    "a download by a path in the name": function("keras", "utils.get_file"),
    "a download in a class's clothes": {"module": "keras.utils", "class_name": "get_file", "config": {}},
    "a function in a class's clothes": {"module": "keras.models", "class_name": "load_model", "config": {}},
    "the switch of the safe mode": function("keras.config", "enable_unsafe_deserialization"),  # CVE-2025-9906
    "loading another model": function("keras.models", "load_model"),
    "Python's own": function("builtins", "eval"),
    "a friend of Keras": {"module": "keras_hub.models", "class_name": "Task", "config": {}},
    "a name like Keras' own": {"module": "keras_hub.x", "class_name": "__x__", "config": {}},
    "a namesake": {"module": "kerasx.layers", "class_name": "Dense", "config": {}},
    "a type": {"class_name": "__typespec__", "spec_name": "x", "module": "os", "registered_name": "x", "config": []},
}


@pytest.mark.parametrize("name", GADGETS)
def test_functions_of_keras_cannot_be_called(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-8747 and CVE-2025-9906: functions of Keras itself that download files or switch the safe mode off."""
    gadget = GADGETS[name]
    file = save_with_config(tmp_path / "model.keras", lambda layers: layers[1]["config"].update(activation=gadget))
    assert f"of module {gadget['module']!r}" in get_refusal(file, monkeypatch)


def test_the_safe_mode_stays_on(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-9906: a first layer that switches the safe mode off for the second."""
    switch: Config = {
        "module": "keras.layers",
        "class_name": "Lambda",
        "config": {"name": "switch", "function": function("keras.config", "enable_unsafe_deserialization")},
    }
    file = save_with_config(tmp_path / "model.keras", lambda layers: layers.append(switch))
    assert "a layer of class Lambda ('switch')" in get_refusal(file, monkeypatch)
    with pytest.raises(ValueError, match="lambda"):
        keras.models.load_model(lambda_model(tmp_path / "lambda.keras", marker))
    assert not marker.exists()


@pytest.mark.filterwarnings("ignore")
def test_legacy_files_are_not_loaded(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-9905: HDF5 files, for which Keras had no safe mode."""
    file = lambda_model(tmp_path / "legacy.h5", marker)
    assert "a legacy HDF5 model: Keras loads it without safe mode" in get_refusal(file, monkeypatch)
    assert not marker.exists()
    load_model(file, trust=True)
    assert marker.exists(), "the file was a real one"


LOADERS = {
    "TFSMLayer": ("keras.layers", "it loads a SavedModel from a path"),  # CVE-2026-1462
    "TorchModuleWrapper": ("keras.layers", "it unpickles a PyTorch module"),  # CVE-2025-49655
    "JaxLayer": ("keras.layers", "it calls functions that the file names"),
    "FlaxLayer": ("keras.layers", "it calls functions that the file names"),
}


@pytest.mark.parametrize("name", LOADERS)
def test_layers_that_load_other_files_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2026-1462 and CVE-2025-49655: layers that load a SavedModel or a pickle."""
    module, why = LOADERS[name]
    layer: Config = {"module": module, "class_name": name, "config": {"name": "loader", "filepath": "saved"}}
    file = save_with_config(tmp_path / "model.keras", lambda layers: layers.append(layer))
    message = get_refusal(file, monkeypatch)
    assert f"a layer of class {name} ('loader')" in message
    assert why in message


def test_a_saved_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").touch()
    with pytest.raises(Exception, match="a SavedModel: its graph can read and write files"):
        load_model(tmp_path / "saved")
    file = save_with_member(tmp_path / "model.keras", "assets/saved_model.pb", b"")
    assert "the SavedModel 'assets/saved_model.pb'" in get_refusal(file, monkeypatch)


class Mark:
    """An object whose pickle creates a marker file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["model.weights.npz", "assets/a.npz", "assets/a.npy", "assets/a.pkl", "assets/A.PT"])
def test_nothing_is_unpickled(name: str, tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickles execute code, as separate files or in arrays of objects."""
    content, objects = BytesIO(), np.array([Mark(marker)], object)
    if name.endswith("z"):
        np.savez(content, root=objects)
    elif name.endswith("npy"):
        np.save(content, objects, allow_pickle=True)
    else:
        pickle.dump(Mark(marker), content)
    file = tmp_path / "model.keras"
    # With weights of both kinds Keras would take the other.
    save_members(file, read_members_without(file, "model.weights.h5") | {name: content.getvalue()})
    assert f"{name}'" in (message := get_refusal(file, monkeypatch))
    assert "unpickling runs" in message
    assert not marker.exists()


def test_arrays_of_numbers_are_accepted(tmp_path: Path) -> None:
    content = BytesIO()
    np.savez(content, numbers=np.arange(3), others=tf.zeros(2).numpy())
    file = save_with_member(tmp_path / "model.keras", "assets/numbers.npz", content.getvalue())
    assert len(load_model(file).trainable_variables) == 4


def lookup(kind: str, **config: Any) -> Callable[[list[Config]], object]:
    layer: Config = {"module": "keras.layers", "class_name": kind, "config": {"name": "words", **config}}
    return lambda layers: layers.append(layer)


@pytest.mark.parametrize("kind", ["StringLookup", "IntegerLookup", "TextVectorization"])
@pytest.mark.parametrize("setting", ["vocabulary", "idf_weights"])
def test_vocabularies_are_not_read_from_files(
    kind: str, setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CVE-2025-12058: a vocabulary that names a file, which becomes part of the model."""
    (tmp_path / "secret.txt").write_text("password\n")
    monkeypatch.chdir(tmp_path)
    file = save_with_config(tmp_path / "model.keras", lookup(kind, **{setting: "secret.txt"}))
    message = get_refusal(file, monkeypatch)
    assert f"{setting} = 'secret.txt': it names a file or a URL" in message
    assert "password" not in message


HIDDEN: dict[str, Callable[[Config], Any]] = {
    "in words": lambda layer: {"vocabulary": [layer]},
    "in an array": lambda layer: {"class_name": "__numpy__", "inner": layer},
    "in an array's settings": lambda layer: {"class_name": "__numpy__", "config": layer},
    "in an array's value": lambda layer: {"class_name": "__numpy__", "config": {"value": [layer]}},
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_vocabulary_cannot_hide_in_data(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = {"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": "secret.txt"}}
    file = save_with_config(tmp_path / "model.keras", lambda layers: layers.append(HIDDEN[name](layer)))
    assert "vocabulary = 'secret.txt'" in get_refusal(file, monkeypatch)


@pytest.mark.parametrize("path", ["/etc/passwd", "../up.txt", "a/../../b", "C:\\x", "\\\\host\\x", "gs://b/x", "~/x"])
def test_paths_to_other_folders_are_refused(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-12058 and CVE-2025-12060: paths and addresses, in a setting of any name."""
    file = save_with_config(tmp_path / "model.keras", lookup("Dense", own=[{"deep": path}]))
    assert f"deep = {path!a}" in get_refusal(file, monkeypatch)


@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "assets/../../out.txt", "assets\\..\\..\\out.txt"])
def test_nothing_is_unpacked_to_other_folders(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-12060: members of an archive that are written outside of the folder meant for them."""
    (tmp_path / "deep").mkdir()
    file = save_with_member(tmp_path / "deep" / "model.keras", name, b"out")
    assert "it would be written outside of its folder" in get_refusal(file, monkeypatch)
    assert not list(tmp_path.rglob("out.txt"))


def test_symbolic_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-12060: a link within an archive, through which others would be written."""
    link = zipfile.ZipInfo("assets")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    file = save_with_member(tmp_path / "model.keras", link, b"/etc")
    assert "a symbolic link can point to any file" in get_refusal(file, monkeypatch)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = save_with_member(tmp_path / "model.keras", "config.json", b"{}")
    assert "two members named 'config.json'" in get_refusal(file, monkeypatch)


def external_storage(weights: h5py.File, other: Path) -> None:
    weights.create_dataset("stolen", (4,), "u1", external=[(str(other), 0, 4)])


def external_link(weights: h5py.File, other: Path) -> None:
    weights["stolen"] = h5py.ExternalLink(str(other), "/secret")


def soft_link(weights: h5py.File, other: Path) -> None:
    weights["stolen"] = h5py.SoftLink("/layers")


def virtual(weights: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource(str(other), "secret", (4,))
    weights.create_virtual_dataset("stolen", layout)


ELSEWHERE = {
    "external storage": (external_storage, "an external file"),  # CVE-2026-1669
    "external link": (external_link, "ExternalLink at '/stolen'"),
    "soft link": (soft_link, "SoftLink at '/stolen'"),
    "virtual dataset": (virtual, "a virtual dataset"),  # CVE-2026-12480
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_weights_are_not_read_from_elsewhere(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2026-1669 and CVE-2026-12480: HDF5 data that lie in other files of the machine."""
    change, words = ELSEWHERE[name]
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as secret:
        secret["secret"] = np.arange(4, dtype="f4")
    file = save_with_weights(tmp_path / "model.keras", lambda weights: change(weights, other))
    message = get_refusal(file, monkeypatch)
    assert words in message
    assert "it can read other files of this machine into the model" in message


def test_groups_that_contain_themselves_are_handled(tmp_path: Path) -> None:
    def loop(weights: h5py.File) -> None:
        weights["layers/again"] = weights["layers"]

    assert len(load_model(save_with_weights(tmp_path / "model.keras", loop)).trainable_variables) == 4


def test_weights_that_are_not_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def words(weights: h5py.File) -> None:
        weights["words"] = ["a", "b"]

    assert "weights must be numbers" in get_refusal(save_with_weights(tmp_path / "model.keras", words), monkeypatch)


@pytest.mark.parametrize("shape", [(50_000_000, 50_000_000), (8192, 8192)])
def test_shapes_without_data_are_refused(
    shape: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CVE-2026-0897: a small file of weights that claims to hold petabytes."""

    def claim(weights: h5py.File) -> None:
        weights.create_dataset("claimed", shape, "f4", chunks=(64, 64))

    message = get_refusal(save_with_weights(tmp_path / "model.keras", claim), monkeypatch)
    assert f"{4 * shape[0] * shape[1]:,} bytes of which 0 are stored: a shape bomb" in message


def test_layers_too_large_for_memory_are_never_made(tmp_path: Path) -> None:
    """CVE-2026-0897's other way: a configuration of a few bytes that makes terabytes of weights."""

    def grow(layers: list[Config]) -> None:
        for layer, inputs in zip(layers[1:], (2, 10**6), strict=True):
            layer["config"]["units"], layer["build_config"]["input_shape"] = 10**6, [None, inputs]

    file = save_with_config(tmp_path / "model.keras", grow)
    # A kernel of 2 by a million, one of a million by a million, and two biases, of four bytes each.
    total = 4 * (2 * 10**6 + 10**12 + 2 * 10**6)
    with pytest.raises(Exception, match=f"refused: a model of {total:,} bytes of weights: .* --trust-model"):
        load_model(file)


def test_the_limit_of_weights_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = save_with_config(tmp_path / "model.keras", lambda layers: None)
    with zipfile.ZipFile(file) as model:
        config = json.loads(model.read("config.json"))
    monkeypatch.setattr(safe_loading, "MAX_BYTES", 4 * 12)
    safe_loading.check_size(config)
    monkeypatch.setattr(safe_loading, "MAX_BYTES", 4 * 12 - 1)
    with pytest.raises(Exception, match="a model of 48 bytes of weights"):
        safe_loading.check_size(config)
    load_model(file, trust=True)


def test_decompression_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is small in the archive and fills the memory when it is unpacked."""
    file = save_with_member(tmp_path / "model.keras", "assets/zeros", bytes(2**25), zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 2**17
    message = get_refusal(file, monkeypatch)
    assert "the member 'assets/zeros' of 33,554,432 bytes" in message
    assert "a decompression bomb" in message


@pytest.mark.parametrize(
    ("limit", "words"),
    [("MAX_BYTES", "bytes unpacked"), ("MAX_MEMBERS", "members"), ("MAX_CONFIG_BYTES", "a config.json of")],
)
def test_archives_have_limits(limit: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = save_with_member(tmp_path / "model.keras", "assets/a", b"a")
    load_model(file)
    monkeypatch.setattr(safe_loading, limit, 1)
    assert words in get_refusal(file, monkeypatch)


def test_large_members_are_inspected_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_loading, "MAX_BYTES_IN_MEMORY", 0)
    load_model(save_with_weights(tmp_path / "good.keras", lambda weights: None))
    file = save_with_weights(tmp_path / "model.keras", lambda weights: soft_link(weights, tmp_path))
    assert "SoftLink at '/stolen'" in get_refusal(file, monkeypatch)


@pytest.mark.parametrize("depth", [250, 100_000])
def test_deeply_nested_configurations_are_refused(depth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.keras"
    config = '{"a":' * depth + "1" + "}" * depth
    save_members(file, read_members_without(file, "config.json") | {"config.json": config.encode()})
    assert "overflows the stack" in get_refusal(file, monkeypatch)


@pytest.mark.parametrize("config", ["[]", "junk", None])
def test_a_missing_or_invalid_configuration_is_reported(config: str | None, tmp_path: Path) -> None:
    file = tmp_path / "model.keras"
    save_members(
        file, read_members_without(file, "config.json") | ({} if config is None else {"config.json": config.encode()})
    )
    with pytest.raises(Exception, match=r"cannot load the model: .*config\.json"):
        load_model(file)


def test_quoted_content_is_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = save_with_config(tmp_path / "model.keras", lookup("StringLookup", vocabulary="\x1b[2J" + "a" * 1000))
    message = get_refusal(file, monkeypatch)
    assert "\x1b" not in message
    assert len(message) < 500
    assert "\\x1b[2J" in message
    message = get_refusal(save_with_config(file, lookup("Dense", **{"\x1b[2J": "../up"})), monkeypatch)
    assert "'\\x1b[2J' = '../up'" in message


def test_messages_of_keras_are_escaped(tmp_path: Path) -> None:
    file = save_with_config(
        tmp_path / "model.keras", lambda layers: layers[1].update(class_name="\x1b[2J", module=None)
    )
    with pytest.raises(TfsmError, match=re.escape("\\x1b[2J")) as caught:
        load_model(file)
    assert str(caught.value).isprintable()
