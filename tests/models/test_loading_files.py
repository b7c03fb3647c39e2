"""Files that want to read or write what is not theirs, or to take all memory."""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.models.tampering import Config, refused, with_config, with_members, with_more, with_weights, without
from tfsm.errors import TfsmError
from tfsm.models import safe_loading as archive
from tfsm.models import safe_loading as size
from tfsm.models.loading import load_model


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
    file = with_config(tmp_path / "model.keras", lookup(kind, **{setting: "secret.txt"}))
    said = refused(file, monkeypatch)
    assert f"{setting} = 'secret.txt': it is read as a file or an address" in said
    assert "password" not in said


HIDDEN: dict[str, Callable[[Config], Any]] = {
    "in words": lambda layer: {"vocabulary": [layer]},
    "in an array": lambda layer: {"class_name": "__numpy__", "inner": layer},
    "in an array's settings": lambda layer: {"class_name": "__numpy__", "config": layer},
    "in an array's value": lambda layer: {"class_name": "__numpy__", "config": {"value": [layer]}},
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_vocabulary_cannot_hide_in_data(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = {"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": "secret.txt"}}
    file = with_config(tmp_path / "model.keras", lambda layers: layers.append(HIDDEN[name](layer)))
    assert "vocabulary = 'secret.txt'" in refused(file, monkeypatch)


@pytest.mark.parametrize("path", ["/etc/passwd", "../up.txt", "a/../../b", "C:\\x", "\\\\host\\x", "gs://b/x", "~/x"])
def test_paths_that_lead_out_are_refused(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-12058 and CVE-2025-12060: paths and addresses, in a setting of any name."""
    file = with_config(tmp_path / "model.keras", lookup("Dense", own=[{"deep": path}]))
    assert f"deep = {path!a}" in refused(file, monkeypatch)


@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "assets/../../out.txt", "assets\\..\\..\\out.txt"])
def test_nothing_is_unpacked_elsewhere(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-12060: members of an archive that are written outside of the folder meant for them."""
    (tmp_path / "deep").mkdir()
    file = with_more(tmp_path / "deep" / "model.keras", name, b"out")
    assert "it would be written outside of the folder" in refused(file, monkeypatch)
    assert not list(tmp_path.rglob("out.txt"))


def test_symbolic_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2025-12060: a link within an archive, through which others would be written."""
    link = zipfile.ZipInfo("assets")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    file = with_more(tmp_path / "model.keras", link, b"/etc")
    assert "a symbolic link can lead to any file" in refused(file, monkeypatch)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = with_more(tmp_path / "model.keras", "config.json", b"{}")
    assert "two members named 'config.json'" in refused(file, monkeypatch)


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
    file = with_weights(tmp_path / "model.keras", lambda weights: change(weights, other))
    said = refused(file, monkeypatch)
    assert words in said
    assert "it can bring other files of this machine into the model" in said


def test_groups_that_contain_themselves_come_to_an_end(tmp_path: Path) -> None:
    def loop(weights: h5py.File) -> None:
        weights["layers/again"] = weights["layers"]

    assert len(load_model(with_weights(tmp_path / "model.keras", loop)).trainable_variables) == 4


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def words(weights: h5py.File) -> None:
        weights["words"] = ["a", "b"]

    assert "weights are numbers" in refused(with_weights(tmp_path / "model.keras", words), monkeypatch)


@pytest.mark.parametrize("shape", [(50_000_000, 50_000_000), (8192, 8192)])
def test_shapes_without_data_are_refused(
    shape: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CVE-2026-0897: a small file of weights that claims to hold petabytes."""

    def claim(weights: h5py.File) -> None:
        weights.create_dataset("claimed", shape, "f4", chunks=(64, 64))

    said = refused(with_weights(tmp_path / "model.keras", claim), monkeypatch)
    assert f"{4 * shape[0] * shape[1]:,} bytes of which 0 are stored: a shape bomb" in said


def test_layers_too_large_for_memory_are_never_made(tmp_path: Path) -> None:
    """CVE-2026-0897's other way: a configuration of a few bytes that makes terabytes of weights."""

    def grow(layers: list[Config]) -> None:
        for layer, inputs in zip(layers[1:], (2, 10**6), strict=True):
            layer["config"]["units"], layer["build_config"]["input_shape"] = 10**6, [None, inputs]

    file = with_config(tmp_path / "model.keras", grow)
    # A kernel of 2 by a million, one of a million by a million, and two biases, of four bytes each.
    total = 4 * (2 * 10**6 + 10**12 + 2 * 10**6)
    with pytest.raises(Exception, match=f"refused: a model of {total:,} bytes of weights: .* --trust-model"):
        load_model(file)


def test_the_limit_of_weights_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = with_config(tmp_path / "model.keras", lambda layers: None)
    monkeypatch.setattr(size, "MOST_BYTES", 4 * 12)
    load_model(file)
    monkeypatch.setattr(size, "MOST_BYTES", 4 * 12 - 1)
    with pytest.raises(Exception, match="a model of 48 bytes of weights"):
        load_model(file)
    load_model(file, trust=True)


def test_decompression_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is small in the archive and fills the memory when it is unpacked."""
    file = with_more(tmp_path / "model.keras", "assets/zeros", bytes(2**25), zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 2**17
    said = refused(file, monkeypatch)
    assert "the member 'assets/zeros' of 33,554,432 bytes" in said
    assert "a decompression bomb" in said


@pytest.mark.parametrize(
    ("limit", "words"),
    [("MOST_BYTES", "bytes unpacked"), ("MOST_MEMBERS", "members"), ("MOST_CONFIG", "a config.json of")],
)
def test_archives_have_limits(limit: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = with_more(tmp_path / "model.keras", "assets/a", b"a")
    load_model(file)
    monkeypatch.setattr(archive, limit, 1)
    assert words in refused(file, monkeypatch)


def test_large_members_are_looked_at_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "IN_MEMORY", 0)
    load_model(with_weights(tmp_path / "good.keras", lambda weights: None))
    file = with_weights(tmp_path / "model.keras", lambda weights: soft_link(weights, tmp_path))
    assert "SoftLink at '/stolen'" in refused(file, monkeypatch)


@pytest.mark.parametrize("depth", [250, 100_000])
def test_configurations_nested_without_end_are_refused(
    depth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model.keras"
    config = '{"a":' * depth + "1" + "}" * depth
    with_members(file, without(file, "config.json") | {"config.json": config.encode()})
    assert "overflows the stack" in refused(file, monkeypatch)


@pytest.mark.parametrize("config", ["[]", "junk", None])
def test_files_without_a_configuration_are_told_apart(config: str | None, tmp_path: Path) -> None:
    file = tmp_path / "model.keras"
    with_members(file, without(file, "config.json") | ({} if config is None else {"config.json": config.encode()}))
    with pytest.raises(Exception, match=r"cannot load the model: .*config\.json"):
        load_model(file)


def test_what_is_quoted_cannot_command_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = with_config(tmp_path / "model.keras", lookup("StringLookup", vocabulary="\x1b[2J" + "a" * 1000))
    said = refused(file, monkeypatch)
    assert "\x1b" not in said
    assert len(said) < 500
    assert "\\x1b[2J" in said
    said = refused(with_config(file, lookup("Dense", **{"\x1b[2J": "../up"})), monkeypatch)
    assert "'\\x1b[2J' = '../up'" in said


def test_what_keras_quotes_cannot_command_a_terminal(tmp_path: Path) -> None:
    file = with_config(tmp_path / "model.keras", lambda layers: layers[1].update(class_name="\x1b[2J", module=None))
    with pytest.raises(TfsmError, match=re.escape("\\x1b[2J")) as caught:
        load_model(file)
    assert str(caught.value).isprintable()
