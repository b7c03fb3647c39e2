"""Tampered model files."""

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


def save_plain(file: Path) -> Path:
    """Save a small valid model."""
    keras.Sequential([keras.Input((2,)), kl.Dense(2, name="first"), kl.Dense(2, name="second")]).save(file)
    return file


def save_with_config(file: Path, change: Callable[[list[Config]], object]) -> Path:
    """Save a model with changed configurations of its layers: the input, then the two of `save_plain`."""
    members = _members(save_plain(file))
    config = json.loads(members["config.json"])
    change(config["config"]["layers"])
    members["config.json"] = json.dumps(config).encode()
    return save_members(file, members)


def save_with_weights(file: Path, change: Callable[[h5py.File], object]) -> Path:
    """Save a model with a changed weights file."""
    members = _members(save_plain(file))
    content = BytesIO(members["model.weights.h5"])
    with h5py.File(content, "r+") as weights:
        change(weights)
    members["model.weights.h5"] = content.getvalue()
    return save_members(file, members)


def save_with_member(
    file: Path, name: str | zipfile.ZipInfo, content: bytes, compression: int = zipfile.ZIP_STORED
) -> Path:
    """Save a model with one more member in its archive."""
    with zipfile.ZipFile(save_plain(file), "a", compression) as archive:
        archive.writestr(name, content)
    return file


def save_members(file: Path, members: dict[str, bytes]) -> Path:
    """Write an archive."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file


def read_members_without(file: Path, *names: str) -> dict[str, bytes]:
    """Return the members of a valid model, except for some."""
    return {name: content for name, content in _members(save_plain(file)).items() if name not in names}


def _members(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def get_refusal(file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return why a file is refused, and assert that Keras did not load it."""
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
