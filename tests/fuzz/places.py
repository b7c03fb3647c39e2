"""A directory with a little of everything that a command may be pointed at."""

from __future__ import annotations

import shutil
from pathlib import Path

import keras
import numpy as np
from keras import layers as kl

from tests.fuzz.running import command


def small_model(file: Path) -> Path:
    """Save a model of three inputs."""
    keras.Sequential([keras.Input((3,)), kl.Dense(4, "tanh", name="hidden"), kl.Dense(2, name="out")]).save(file)
    return file


def furnish(folder: Path) -> Path:
    """Put files of all kinds into the working directory, a run directory and a study among them."""
    small_model(folder / "m.keras")
    inputs = np.random.default_rng(0).normal(size=(5, 3)).astype("f4")
    np.save(folder / "x.npy", inputs)
    np.savez(folder / "x.npz", arr_0=inputs)
    (folder / "notes.txt").write_text("notes\n")
    (folder / "old.h5").write_bytes(b"\x89HDF\r\n\x1a\n junk")
    (folder / "my.toml").write_text("[run]\nlog_every = 2\n")
    (folder / "folder").mkdir()
    (folder / "folder" / "mine.txt").write_text("mine\n")
    (folder / "folder.html").mkdir()
    (folder / "folder.png").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    done = command(
        *("compare", "simple-easy", "--mutation", "control", "--runs", "1", "--evaluations", "6", "--out", "study"),
        *("--set", "engine.compile=graph", "--set", "log_every=2"),
    )
    assert done.code == 0, done.stderr
    shutil.copytree(folder / "study" / "control", folder / "done")
    return folder


def copy_of(furnished: Path) -> None:
    """Copy all of it into the working directory."""
    shutil.copytree(furnished, Path(), symlinks=True, dirs_exist_ok=True)
