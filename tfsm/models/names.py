"""Model names, --layers patterns, file kinds (no TF)."""

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
"""Stands for the layers that make the outputs."""


class Pattern(NamedTuple):
    """Some layers, and their share of the intensity."""

    name: str
    share: float


def parse_patterns(texts: str | Iterable[str]) -> tuple[Pattern, ...]:
    """Read patterns, each `NAME` or `NAME=SHARE`; a single text may have commas between them.

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
            f"layers {whole!r}: expected names with commas between them, such as 'conv*,dense_2' or 'conv*=0.1,@head', "
            f"where the number is a share of the intensity, got {text!r}"
        )
    if name.startswith("@") and name != HEAD:
        raise TfsmError(f"layers {whole!r}: {name!r} is not known; {HEAD} stands for the layers that make the outputs")
    return Pattern(name, share)


def assign_shares(
    patterns: Sequence[Pattern], layers: Mapping[str, str], heads: Collection[str] = ()
) -> tuple[float, ...]:
    """Return the share of each layer: that of the last pattern which it matches, 0 where there is none.

    Args:
        patterns: what to look for: a layer, or a model within the model, which means all layers of that.
        layers: the names of all layers, and their paths through the models around them.
        heads: the names of those that `@head` stands for.

    >>> shares_by_layer(parse_patterns("*,block=0"), {"embedding": "embedding", "a": "block/a", "b": "block/b"})
    (1.0, 0.0, 0.0)
    """
    chosen = dict.fromkeys(layers, 0.0)
    for pattern in patterns:
        if pattern.name == HEAD:
            found = list(heads)
        else:
            found = [n for n, path in layers.items() if any(fnmatchcase(x, pattern.name) for x in _names(n, path))]
        if not found:
            raise TfsmError(
                f"no layer is called {pattern.name!r}: those with weights to mutate are {', '.join(layers)}"
            )
        chosen |= dict.fromkeys(found, pattern.share)
    if not any(chosen.values()):
        raise TfsmError(f"no layer is left to be mutated: of {', '.join(layers)} none has a share above 0")
    return tuple(chosen.values())


def _names(name: str, path: str) -> list[str]:
    parts = path.split("/")
    return [name, parts[-1], *("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))]


TRUST_HINT: Final = "If you trust whoever made the file, give --trust-model (in Python trust=True)"


class RefusedError(TfsmError):
    """Something in a model file that could do harm."""

    def __init__(self, found: str, why: str, way_out: str = TRUST_HINT) -> None:
        super().__init__(f"refused: {found}: {why}. {way_out}")


def quote(text: object) -> str:
    r"""Quote something from the file, which may be long, and may hold what a terminal would obey.

    >>> quote("a" * 100)[-10:], quote("red" + chr(27))
    ("aaaaaa...'", "'red\\x1b'")
    """
    words = str(text)
    return ascii(words if len(words) <= 60 else f"{words[:57]}...")


def summarize_error(error: BaseException, width: int = 500) -> str:
    """Return another library's message as one line; it may quote the file, and so what a terminal would obey."""
    words = shorten(str(error) or type(error).__name__, width, placeholder=" ...")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in words)


LEGACY: Final = (".h5", ".hdf5")


def check_model_file(file: Path, trust: bool) -> None:
    """Refuse what is not a `.keras` file, or a legacy one that is trusted.

    Args:
        file: the model's file.
        trust: whether the user trusts whoever made it.
    """
    if (file / "saved_model.pb").is_file():
        raise TfsmError(
            f"{file}: a SavedModel: its graph can read and write files, and has no layers that could be mutated; "
            "load it where it was made, and save it again as .keras"
        )
    legacy = file.suffix.lower() in LEGACY
    if legacy and not trust:
        raise TfsmError(
            f"{file}: refused: a legacy HDF5 model: Keras loads it without its safe mode, so code in it would be run. "
            f"Save it again as .keras where it was made. {TRUST_HINT}"
        )
    if not legacy and file.suffix != ".keras":
        raise TfsmError(f"{file}: expected a .keras file")
    if not file.is_file():
        raise TfsmError(f"{file}: {'is a directory' if file.is_dir() else 'no such file'}")


_BUILDER: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def is_builder(name: str) -> bool:
    """Say whether a name is that of a function, `package.module:function`, rather than of a file.

    >>> is_builder("my_package.nets:build"), is_builder("models/net.keras")
    (True, False)
    """
    return _BUILDER.fullmatch(name) is not None and not Path(name).exists()


def check_model_name(name: str, *, trust: bool = False) -> None:
    """Refuse what can be seen to be wrong before TensorFlow is imported."""
    if not is_builder(name):
        check_model_file(Path(name), trust)
