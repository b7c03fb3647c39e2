"""Which layers to mutate, in words: `conv*,dense_2=0.1`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import isfinite
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


def shares_by_layer(
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
