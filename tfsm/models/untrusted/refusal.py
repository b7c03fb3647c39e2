"""How a file is refused: what was found, why it is dangerous, and the way out."""

from __future__ import annotations

from textwrap import shorten
from typing import Final

from tfsm.errors import TfsmError

WAY_OUT: Final = "If you trust whoever made the file, give --trust-model (in Python trust=True)"


class RefusedError(TfsmError):
    """Something in a model file that could do harm."""

    def __init__(self, found: str, why: str, way_out: str = WAY_OUT) -> None:
        super().__init__(f"refused: {found}: {why}. {way_out}")


def shown(text: object) -> str:
    r"""Quote something from the file, which may be long, and may hold what a terminal would obey.

    >>> shown("a" * 100)[-10:], shown("red" + chr(27))
    ("aaaaaa...'", "'red\\x1b'")
    """
    words = str(text)
    return ascii(words if len(words) <= 60 else f"{words[:57]}...")


def reason(error: BaseException, width: int = 500) -> str:
    """Return another library's message as one line; it may quote the file, and so what a terminal would obey."""
    words = shorten(str(error) or type(error).__name__, width, placeholder=" ...")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in words)
