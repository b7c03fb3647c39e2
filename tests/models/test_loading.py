from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers as kl

from tests.models.architectures import CASES
from tfsm.errors import TfsmError
from tfsm.models.genome import flatten
from tfsm.models.loading import load_model


@pytest.mark.parametrize("name", ["dense", "nested", "batch normalization", "inputs by name"])
def test_a_saved_model_comes_back(name: str, tmp_path: Path) -> None:
    model = CASES[name].build()
    model.save(tmp_path / "model.keras")
    for path in (tmp_path / "model.keras", str(tmp_path / "model.keras")):
        np.testing.assert_array_equal(flatten(load_model(path)), flatten(model))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TfsmError, match=r"model\.h5: expected a \.keras file"):
        load_model(tmp_path / "model.h5")
    with pytest.raises(TfsmError, match=r"model\.keras: no such file"):
        load_model(tmp_path / "model.keras")
    (tmp_path / "folder.keras").mkdir()
    with pytest.raises(TfsmError, match=r"folder\.keras: is a directory"):
        load_model(tmp_path / "folder.keras")
    (tmp_path / "junk.keras").write_bytes(b"junk")
    with pytest.raises(TfsmError, match=r"junk\.keras: cannot load the model: .+"):
        load_model(tmp_path / "junk.keras")


def test_code_inside_a_file_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), kl.Dense(2), kl.Lambda(lambda x: x + 1)])
    model.save(tmp_path / "code.keras")
    with pytest.raises(TfsmError, match="cannot load the model"):
        load_model(tmp_path / "code.keras")


def test_a_model_with_nothing_to_mutate_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), kl.Dense(2)])
    model.trainable = False
    model.save(tmp_path / "frozen.keras")
    with pytest.raises(TfsmError, match="no trainable variables"):
        load_model(tmp_path / "frozen.keras")
