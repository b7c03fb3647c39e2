"""Model files that were tampered with."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import keras
import pytest
from keras import layers as kl

from tfsm.errors import TfsmError
from tfsm.models.loading import load_model

Config = dict[str, Any]


def plain(file: Path) -> Path:
    """Save a small honest model."""
    keras.Sequential([keras.Input((2,)), kl.Dense(2, name="first"), kl.Dense(2, name="second")]).save(file)
    return file


def with_config(file: Path, change: Callable[[list[Config]], object]) -> Path:
    """Save a model whose layers' configurations were changed: the input's, then the two of `plain`."""
    members = _members(plain(file))
    config = json.loads(members["config.json"])
    change(config["config"]["layers"])
    members["config.json"] = json.dumps(config).encode()
    return with_members(file, members)


def with_weights(file: Path, change: Callable[[h5py.File], object]) -> Path:
    """Save a model whose weights' file was changed."""
    members = _members(plain(file))
    content = BytesIO(members["model.weights.h5"])
    with h5py.File(content, "r+") as weights:
        change(weights)
    members["model.weights.h5"] = content.getvalue()
    return with_members(file, members)


def with_more(file: Path, name: str | zipfile.ZipInfo, content: bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    """Save a model with one more member in its archive."""
    with zipfile.ZipFile(plain(file), "a", compression) as archive:
        archive.writestr(name, content)
    return file


def with_members(file: Path, members: dict[str, bytes]) -> Path:
    """Write an archive."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file


def without(file: Path, *names: str) -> dict[str, bytes]:
    """Return the members of an honest model but for some."""
    return {name: content for name, content in _members(plain(file)).items() if name not in names}


def _members(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return why a file is refused, and see to it that Keras was not let near it."""
    called: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr(keras.models, "load_model", lambda *a, **k: called.append(a))
        patched.setattr(keras.saving, "deserialize_keras_object", lambda *a, **k: called.append(a))
        with pytest.raises(TfsmError) as caught:
            load_model(file)
    assert not called
    message = str(caught.value)
    assert message.startswith(f"{file}: refused: ")
    assert "\n" not in message
    assert "--trust-model" in message or "import the module that registers it" in message
    return message
