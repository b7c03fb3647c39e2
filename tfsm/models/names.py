"""Names that users give: layer patterns (`--layers`), model files and `package.module:function`.

Importing this module does not import TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import isfinite
from pathlib import Path
from textwrap import shorten
from typing import Final, NamedTuple

from tfsm.errors import TfsmError

HEAD: Final = "@head"
"""Stands for the output layers."""


class Pattern(NamedTuple):
    """A pattern of layer names, and their share of the intensity."""

    name: str
    share: float


def parse_patterns(texts: str | Iterable[str]) -> tuple[Pattern, ...]:
    """Parse patterns, each `NAME` or `NAME=SHARE`; a single string may hold several, separated by commas.

    >>> parse_patterns("conv*,dense_2=0.1")
    (Pattern(name='conv*', share=1.0), Pattern(name='dense_2', share=0.1))
    """
    whole = texts if isinstance(texts, str) else ",".join(texts)
    return tuple(_pattern(text.strip(), whole) for text in whole.split(",")) if whole.strip() else ()


def _pattern(text: str, whole: str) -> Pattern:
    name, equals, number = text.partition("=")
    name = name.strip()
    try:
        share = float(number) if equals else 1.0
    except ValueError:
        share = float("nan")
    if not name or not isfinite(share) or share < 0:
        raise TfsmError(
            f"layers {whole!r}: expected names separated by commas, such as 'conv*,dense_2' or 'conv*=0.1,@head', "
            f"where the number is a share of the intensity, got {text!r}"
        )
    if name.startswith("@") and name != HEAD:
        raise TfsmError(f"layers {whole!r}: unknown name {name!r}; {HEAD} stands for the output layers")
    return Pattern(name, share)


def assign_shares(
    patterns: Sequence[Pattern], layers: Mapping[str, str], heads: Collection[str] = ()
) -> tuple[float, ...]:
    """Return the share of each layer: that of the last pattern it matches, or 0 if it matches none.

    Args:
        patterns: names of layers, or of nested models, which stand for all of their layers.
        layers: the names of all layers, with their paths through the models around them.
        heads: the names of the layers that `@head` stands for.

    >>> assign_shares(parse_patterns("*,block=0"), {"embedding": "embedding", "a": "block/a", "b": "block/b"})
    (1.0, 0.0, 0.0)
    """
    chosen = dict.fromkeys(layers, 0.0)
    for pattern in patterns:
        if pattern.name == HEAD:
            matches = list(heads)
        else:
            matches = [n for n, path in layers.items() if any(fnmatchcase(x, pattern.name) for x in _aliases(n, path))]
        if not matches:
            raise TfsmError(f"no layer is named {pattern.name!r}: the layers with weights are {', '.join(layers)}")
        chosen |= dict.fromkeys(matches, pattern.share)
    if not any(chosen.values()):
        raise TfsmError(f"no layer to mutate: none of {', '.join(layers)} has a share above 0")
    return tuple(chosen.values())


def _aliases(name: str, path: str) -> list[str]:
    parts = path.split("/")
    return [name, parts[-1], *("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))]


TRUST_HINT: Final = "If you trust the author of the file, use --trust-model (in Python: trust=True)"


class RefusedError(TfsmError):
    """A model file contains something that could do harm."""

    def __init__(self, found: str, reason: str, hint: str = TRUST_HINT) -> None:
        super().__init__(f"refused: {found}: {reason}. {hint}")


def quote(text: object) -> str:
    r"""Quote text from a file, which may be long and may contain control sequences for the terminal.

    >>> quote("a" * 100)[-10:], quote("red" + chr(27))
    ("aaaaaa...'", "'red\\x1b'")
    """
    value = str(text)
    return ascii(value if len(value) <= 60 else f"{value[:57]}...")


def summarize_error(error: BaseException, width: int = 500) -> str:
    """Return the message of a library's error as one printable line; it may quote text from a file."""
    message = shorten(str(error) or type(error).__name__, width, placeholder=" ...")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in message)


LEGACY: Final = (".h5", ".hdf5")
MAX_BYTES: Final = 2**31
"""Maximum size of an unpacked archive, of all weights of a model, and of an experience."""


def check_model_file(file: Path, trust: bool) -> None:
    """Raise an error unless this is a `.keras` file, or a trusted legacy file.

    Args:
        file: the model's file.
        trust: whether the user trusts its author.
    """
    if (file / "saved_model.pb").is_file():
        raise TfsmError(
            f"{file}: a SavedModel: its graph can read and write files, and it has no layers to mutate; "
            "load it where it was created, and save it as .keras"
        )
    legacy = file.suffix.lower() in LEGACY
    if legacy and not trust:
        raise TfsmError(
            f"{file}: refused: a legacy HDF5 model: Keras loads it without safe mode, so code in it would run. "
            f"Save it as .keras where it was created. {TRUST_HINT}"
        )
    if not legacy and file.suffix != ".keras":
        raise TfsmError(f"{file}: expected a .keras file")
    if not file.is_file():
        raise TfsmError(f"{file}: {'is a directory' if file.is_dir() else 'no such file'}")


_BUILDER: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def is_builder(name: str) -> bool:
    """Return whether a name is a function, `package.module:function`, rather than a file.

    >>> is_builder("my_package.nets:build"), is_builder("models/net.keras")
    (True, False)
    """
    return _BUILDER.fullmatch(name) is not None and not Path(name).exists()


def check_model_name(name: str, *, trust: bool = False) -> None:
    """Raise an error for a wrong name, as far as that shows before TensorFlow is imported."""
    if not is_builder(name):
        check_model_file(Path(name), trust)
