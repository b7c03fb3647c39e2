"""Whatever a `.keras` file holds: a model, or a message; never code that is run, a crash or a hang."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import layers as kl

from tests.fuzz.limits import within
from tests.fuzz.models import damaged_models, members
from tests.fuzz.places import small_model
from tests.fuzz.profile import fuzzed
from tests.fuzz.running import SECONDS, command, empty_folder, refusal
from tfsm.models.loading import load_model


def recurrent_model(file: Path) -> Path:
    keras.Sequential([keras.Input((4, 3)), kl.LSTM(3), kl.LayerNormalization(), kl.Dense(2)]).save(file)
    return file


def branched_model(file: Path) -> Path:
    first, second = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    keras.Model([first, second], kl.Add()([kl.Dense(2)(first), kl.Dense(2)(second)])).save(file)
    return file


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    file = tmp_path_factory.mktemp("models") / "model.keras"
    return {make.__name__: members(make(file)) for make in (small_model, recurrent_model, branched_model)}


def unharmed() -> bool:
    return not any(Path(place).exists() for place in ("executed", "../executed"))


@pytest.mark.parametrize("make", ["small_model", "recurrent_model", "branched_model"])
@fuzzed(15)
@given(data=st.data())
def test_models_are_loaded_or_refused(whole: dict[str, dict[str, bytes]], make: str, data: st.DataObject) -> None:
    content = data.draw(damaged_models(whole[make]))
    with empty_folder(), within(SECONDS):
        Path("deep").mkdir()
        file = Path("deep/m.keras")
        file.write_bytes(content)
        said = refusal(lambda: load_model(file), default=str(file))
        assert said.startswith(str(file))
        assert said.isprintable(), "what a file holds cannot command a terminal"
        assert unharmed()


@fuzzed(5, share=0.2)
@given(data=st.data())
def test_a_doctor_looks_at_them_or_refuses(whole: dict[str, dict[str, bytes]], data: st.DataObject) -> None:
    content = data.draw(damaged_models(whole["small_model"]))
    with empty_folder():
        Path("m.keras").write_bytes(content)
        done = command("doctor", "--model", "m.keras")
        assert done.code == 0 or done.stderr.startswith("error: "), done.stderr
        assert unharmed()
