"""Files that want to run code when they are loaded: one test for each class of published faults of Keras' loading."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.models.tampering import Config, refused, with_config, with_members, with_more, without
from tfsm.models.loading import load_model


def writing(marker: Path) -> Callable[[Any], Any]:
    """Return code that leaves a mark where it is run."""
    path = str(marker)
    return lambda x: (__import__("pathlib").Path(path).touch(), x)[1]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


def lambda_model(file: Path, marker: Path) -> Path:
    model = keras.Sequential([keras.Input((2,)), kl.Dense(2), kl.Lambda(writing(marker))])
    model.save(file)
    marker.unlink()
    return file


def test_a_lambda_layer_is_not_run(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2024-3660: the code of a Lambda layer."""
    file = lambda_model(tmp_path / "lambda.keras", marker)
    said = refused(file, monkeypatch)
    assert "a layer of class Lambda ('lambda" in said
    assert "it holds Python code" in said
    assert not marker.exists()
    load_model(file, trust=True)
    assert marker.exists(), "the file was a real one"


@pytest.mark.parametrize("place", ["activation", "kernel_initializer"])
def test_code_elsewhere_is_not_run(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2024-3660: the same code, in another layer's configuration."""
    code = {"class_name": "__lambda__", "config": {"value": "AAAA"}}
    file = with_config(tmp_path / "model.keras", lambda layers: layers[1]["config"].update({place: code}))
    assert "a serialized lambda: it holds Python code" in refused(file, monkeypatch)


@pytest.mark.parametrize("wrapping", ["legacy", "nested", "package", "hidden in data"])
def test_a_lambda_layer_cannot_hide(wrapping: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code: Config = {"class_name": "Lambda", "config": {"name": "inner", "function": ["AAAA", None, None]}}
    wrapped = {
        "legacy": code,
        "nested": {"module": "keras.layers", "class_name": "TimeDistributed", "config": {"layer": code}},
        "package": code | {"module": "keras.layers", "class_name": "x", "registered_name": "Custom>Lambda"},
        "hidden in data": {"class_name": "__numpy__", "inner": code},
    }[wrapping]
    file = with_config(tmp_path / "model.keras", lambda layers: layers.append(wrapped))
    assert "a layer of class Lambda" in refused(file, monkeypatch)


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
    file = with_config(tmp_path / "model.keras", lambda layers: layers[1]["config"].update(activation=named))
    said = refused(file, monkeypatch)
    assert f"the {kind} '{'Evil' if kind == 'class' else 'run'}' of module 'imported_by_a_model'" in said
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
def test_functions_of_keras_are_no_tools(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-8747 and CVE-2025-9906: functions of Keras itself that download files or switch the safe mode off."""
    gadget = GADGETS[name]
    file = with_config(tmp_path / "model.keras", lambda layers: layers[1]["config"].update(activation=gadget))
    assert f"of module {gadget['module']!r}" in refused(file, monkeypatch)


def test_the_safe_mode_stays_on(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-9906: a first layer that switches the safe mode off for the second."""
    switch: Config = {
        "module": "keras.layers",
        "class_name": "Lambda",
        "config": {"name": "switch", "function": function("keras.config", "enable_unsafe_deserialization")},
    }
    file = with_config(tmp_path / "model.keras", lambda layers: layers.append(switch))
    assert "a layer of class Lambda ('switch')" in refused(file, monkeypatch)
    with pytest.raises(ValueError, match="lambda"):
        keras.models.load_model(lambda_model(tmp_path / "lambda.keras", marker))
    assert not marker.exists()


@pytest.mark.filterwarnings("ignore")
def test_legacy_files_are_not_loaded(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-9905: HDF5 files, for which Keras had no safe mode."""
    file = lambda_model(tmp_path / "legacy.h5", marker)
    assert "a legacy HDF5 model: Keras loads it without its safe mode" in refused(file, monkeypatch)
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
    """CVE-2026-1462 and CVE-2025-49655: layers that load a SavedModel or a pickle of their own."""
    module, why = LOADERS[name]
    layer: Config = {"module": module, "class_name": name, "config": {"name": "loader", "filepath": "saved"}}
    file = with_config(tmp_path / "model.keras", lambda layers: layers.append(layer))
    said = refused(file, monkeypatch)
    assert f"a layer of class {name} ('loader')" in said
    assert why in said


def test_a_saved_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").touch()
    with pytest.raises(Exception, match="a SavedModel: its graph can read and write files"):
        load_model(tmp_path / "saved")
    file = with_more(tmp_path / "model.keras", "assets/saved_model.pb", b"")
    assert "the SavedModel 'assets/saved_model.pb'" in refused(file, monkeypatch)


class Mark:
    """An object whose pickle leaves a mark."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["model.weights.npz", "assets/a.npz", "assets/a.npy", "assets/a.pkl", "assets/A.PT"])
def test_nothing_is_unpickled(name: str, tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickles run code: as files of their own, or as arrays of objects."""
    content, objects = BytesIO(), np.array([Mark(marker)], object)
    if name.endswith("z"):
        np.savez(content, root=objects)
    elif name.endswith("npy"):
        np.save(content, objects, allow_pickle=True)
    else:
        pickle.dump(Mark(marker), content)
    file = tmp_path / "model.keras"
    # With weights of both kinds Keras would take the other.
    with_members(file, without(file, "model.weights.h5") | {name: content.getvalue()})
    assert f"{name}'" in (said := refused(file, monkeypatch))
    assert "unpickling runs" in said
    assert not marker.exists()


def test_arrays_of_numbers_are_welcome(tmp_path: Path) -> None:
    content = BytesIO()
    np.savez(content, numbers=np.arange(3), others=tf.zeros(2).numpy())
    file = with_more(tmp_path / "model.keras", "assets/numbers.npz", content.getvalue())
    assert len(load_model(file).trainable_variables) == 4
