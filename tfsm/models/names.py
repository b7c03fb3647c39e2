"""What a model's name says of it, before anything is imported."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tfsm.models.untrusted.kind import check_kind

_BUILDER: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def is_builder(name: str) -> bool:
    """Say whether a name is that of a function, `package.module:function`, rather than of a file.

    >>> is_builder("my_package.nets:build"), is_builder("models/net.keras")
    (True, False)
    """
    return _BUILDER.fullmatch(name) is not None and not Path(name).exists()


def check_name(name: str, *, trust: bool = False) -> None:
    """Refuse what can be seen to be wrong before TensorFlow is imported."""
    if not is_builder(name):
        check_kind(Path(name), trust)
