"""What a new package and everything in it is called."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tfsm.errors import TfsmError, suggestion
from tfsm.registry import KINDS, Kind

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Names:
    """All names, made from what users shall type."""

    kind: Kind
    part: str
    """`my-noise`"""

    @property
    def package(self) -> str:
        """The distribution and its folder: `tfsm-my-noise`."""
        return f"tfsm-{self.part}"

    @property
    def module(self) -> str:
        """The import package: `tfsm_my_noise`."""
        return self.package.replace("-", "_")

    @property
    def title(self) -> str:
        """The class: `MyNoise`."""
        return "".join(word.capitalize() for word in self.part.split("-"))


def names_for(name: str, kind: str) -> Names:
    """Return all names, or say what is wrong with the one that was given.

    >>> names_for("my-noise", "mutation").module
    'tfsm_my_noise'
    """
    for known in KINDS:
        if kind == known:
            break
    else:
        raise TfsmError(f"--kind {kind}: no such kind of part{suggestion(kind, KINDS)}")
    part = name.removeprefix("tfsm-")
    if not _NAME.fullmatch(part):
        near = _mended(part)
        hint = f", did you mean {near!r}?" if near else ""
        raise TfsmError(f"bad name {name!r}: expected lower-case letters, digits and single '-' between them{hint}")
    return Names(known, part)


def _mended(name: str) -> str:
    """Return the nearest name that would do, or nothing."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    words = re.findall(r"[a-z0-9]+", spaced.lower())
    near = "-".join(words).lstrip("0123456789-")
    return near if _NAME.fullmatch(near) else ""
