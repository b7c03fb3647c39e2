"""A `.keras` file is a zip archive: its members are judged by the archive's directory, before one is unpacked."""

from __future__ import annotations

import json
import re
import shutil
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, Any, Final

from tfsm.errors import TfsmError
from tfsm.models.untrusted.arrays import check_arrays, check_numbers, read_header
from tfsm.models.untrusted.limits import MOST_BYTES, MOST_CONFIG, MOST_MEMBERS, is_bomb
from tfsm.models.untrusted.refusal import RefusedError, reason, shown
from tfsm.models.untrusted.weights import check_weights

CONFIG: Final = "config.json"
IN_MEMORY: Final = 2**27
"""Bytes of a member that may be copied into memory to look at it."""
PICKLES: Final = (".pkl", ".pickle", ".joblib", ".dill", ".pt", ".pth")
TOO_LARGE: Final = "unpacking it could take all memory"


def read_archive(file: Path) -> dict[str, Any]:
    """Refuse an archive whose members could do harm, and return the model's configuration.

    Args:
        file: the archive; nothing of it is run.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            _check_members(archive.infolist())
            for member in archive.infolist():
                _check_content(archive, member)
            return _config(archive)
    except TfsmError:
        raise
    except Exception as error:  # what a broken archive makes zipfile raise is of many kinds
        raise TfsmError(
            f"cannot load the model: not a .keras archive as Keras 3 writes it ({reason(error)})"
        ) from error


def _check_members(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MOST_MEMBERS:
        raise RefusedError(f"an archive of {len(members):,} members", f"more than {MOST_MEMBERS:,} are no model")
    names = Counter(member.filename for member in members)
    for member in members:
        name = member.filename
        if leaves_its_folder(name):
            raise RefusedError(f"the member {shown(name)}", "it would be written outside of the folder it belongs to")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise RefusedError(f"the member {shown(name)}", "a symbolic link can lead to any file of this machine")
        if names[name] > 1:
            raise RefusedError(f"two members named {shown(name)}", "what is checked may not be what is loaded")
        if is_bomb(member.file_size, member.compress_size):
            raise RefusedError(
                f"the member {shown(name)} of {member.file_size:,} bytes, {member.compress_size:,} of them stored",
                f"a decompression bomb, {TOO_LARGE}",
            )
    total = sum(member.file_size for member in members)
    if total > MOST_BYTES:
        raise RefusedError(f"an archive of {total:,} bytes unpacked", f"above {MOST_BYTES:,} {TOO_LARGE}")


def leaves_its_folder(name: str) -> bool:
    r"""Say whether a path is absolute, or leads upwards, or is an address, on any system.

    >>> [leaves_its_folder(name) for name in ("assets/a.txt", "/etc/passwd", "a/../b", "C:\\x", "gs://bucket", "...d")]
    [False, True, True, True, True, False]
    """
    parts = re.split(r"[/\\]", name)
    return name.startswith(("/", "\\", "~")) or ".." in parts or bool(re.match(r"[A-Za-z]:[/\\]|[\w+.-]+://", name))


def _check_content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    path = PurePosixPath(member.filename)
    ending, name = path.suffix.lower(), shown(member.filename)
    if ending in PICKLES:
        raise RefusedError(f"the member {name}", "unpickling runs whatever code the file names")
    if path.name == "saved_model.pb":
        raise RefusedError(f"the SavedModel {name}", "its graph can read and write files")
    if ending in (".h5", ".hdf5"):
        with _seekable(archive, member) as stream:
            check_weights(stream, f"the weights {name}")
    elif ending == ".npy":
        with archive.open(member) as stream:
            header = read_header(stream, member.filename)
        check_numbers(header, f"the array {name}")
        if header.nbytes > member.file_size:
            raise RefusedError(
                f"the array {name} of shape {header.shape}", f"it claims more than it holds, {TOO_LARGE}"
            )
    elif ending == ".npz":
        with _seekable(archive, member) as stream:
            check_arrays(stream, f"the arrays {name}")


@contextmanager
def _seekable(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    # To go back in a member is to read it from the start again, so it is copied once: a large one not into memory.
    make: Callable[[], IO[bytes]] = BytesIO if member.file_size <= IN_MEMORY else TemporaryFile
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
    if member.file_size > MOST_CONFIG:
        raise RefusedError(
            f"a {CONFIG} of {member.file_size:,} bytes", f"above {MOST_CONFIG:,} it could take all memory"
        )
    try:
        config = json.loads(archive.read(member))
    except RecursionError:
        raise RefusedError(f"a {CONFIG} nested without end", "reading it overflows the stack") from None
    except ValueError as error:
        raise TfsmError(f"cannot load the model: its {CONFIG} is not JSON ({error})") from None
    if not isinstance(config, dict):
        raise TfsmError(f"cannot load the model: its {CONFIG} describes none")
    return config
