"""Whatever a file of experience holds: a child, or a message; never code that is run, nor all memory."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.arrays import ARCHIVES, ARRAYS, Marks, saved
from tests.fuzz.limits import within
from tests.fuzz.places import small_model
from tests.fuzz.profile import fuzzed
from tests.fuzz.running import SECONDS, command, empty_folder, refusal
from tfsm.models.inputs import read_experience

FILES = st.tuples(st.just("x.npy"), ARRAYS) | st.tuples(st.sampled_from(["x.npz", "x.npy"]), ARCHIVES)
MOST = 2**18
"""Kilobytes that looking at a small file may add to what the process ever took."""


@pytest.fixture(scope="module")
def model() -> Iterator[Path]:
    with empty_folder() as folder:
        yield small_model(folder / "m.keras")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@fuzzed(60)
@given(file=FILES)
def test_experience_is_read_or_refused(file: tuple[str, bytes]) -> None:
    name, content = file
    with empty_folder(), within(SECONDS):
        Path(name).write_bytes(content)
        before = peak()
        assert refusal(lambda: read_experience(name), default=f"{name}: ").startswith(f"{name}: ")
        assert peak() - before < MOST
        assert not Path("executed").exists(), "a pickle was executed"


@pytest.mark.parametrize("words", [("mutate", "--out", "child.keras"), ("sensitivity",)], ids=lambda words: words[0])
@fuzzed(6, share=0.3)
@given(file=FILES)
def test_commands_take_it_or_refuse_it(model: Path, words: tuple[str, ...], file: tuple[str, bytes]) -> None:
    name, content = file
    with empty_folder():
        Path(name).write_bytes(content)
        done = command(words[0], str(model), "--experience", name, *words[1:])
        assert done.code == 0 or done.stderr.startswith("error: "), done.stderr
        assert Path("child.keras").exists() == (words[0] == "mutate" and done.code == 0)
        assert not Path("executed").exists(), "a pickle was executed"


def test_a_pickle_would_be_noticed() -> None:
    objects = np.empty(1, object)
    objects[0] = Marks()
    with empty_folder():
        Path("x.npy").write_bytes(saved(objects))
        np.load("x.npy", allow_pickle=True)
        assert Path("executed").exists()
