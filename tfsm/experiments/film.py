"""Films put side by side, and written to files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tfsm.contracts import Film
from tfsm.errors import TfsmError
from tfsm.extras import optional
from tfsm.files import whole

ENDINGS: Final = (".gif", ".mp4", ".png")
_GIF_RATE: Final = 20.0
"""Players slow down what is faster, and files grow."""


class SideBySide:
    """Films of one size beside each other, each under its title.

    Args:
        films: films with their titles.
    """

    def __init__(self, films: Sequence[tuple[Film, str]]) -> None:
        self._films = films
        self.rate = films[0][0].rate

    def __len__(self) -> int:
        """Return the length of the longest."""
        return max(len(film) for film, _ in self._films)

    def frame(self, index: int) -> np.ndarray:
        """Return one moment of all; a film that is over stands still."""
        return self._joined([film.frame(min(index, len(film) - 1)) for film, _ in self._films])

    def still(self) -> np.ndarray:
        """Return all pictures."""
        return self._joined([film.still() for film, _ in self._films])

    def _joined(self, pictures: list[np.ndarray]) -> np.ndarray:
        heads = [_title(title, picture.shape[1]) for (_, title), picture in zip(self._films, pictures, strict=True)]
        parts = [np.concatenate(pair) for pair in zip(heads, pictures, strict=True)]
        return np.concatenate(parts, axis=1)


def check_ending(file: Path) -> None:
    """Refuse a file whose ending says nothing that can be written."""
    if file.suffix.lower() not in ENDINGS:
        raise TfsmError(f"{file}: cannot tell what to write from its ending; use {', '.join(ENDINGS)}")
    if not file.parent.is_dir():
        raise TfsmError(f"{file}: there is no directory {str(file.parent)!r}")


def save_film(film: Film, file: Path, *, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
    """Write a film as an animation, or as one picture, by the file's ending.

    Args:
        film: what to write.
        file: a `.gif`, `.mp4` or `.png` file; one that is there is replaced once the new one is whole.
        progress: told how many frames of how many are done.
    """
    check_ending(file)
    kind = file.suffix.lower()
    if kind == ".png":
        return save_picture(film.still(), file)
    stride = max(1, round(film.rate / _GIF_RATE)) if kind == ".gif" else 1
    indices = range(0, len(film), stride)
    imageio = _imageio()
    try:
        with whole(file) as draft, imageio.get_writer(draft, **_options(kind, film.rate / stride)) as writer:
            for done, index in enumerate(indices):
                progress(done, len(indices))
                writer.append_data(film.frame(index))
    except OSError as error:
        raise TfsmError(f"{file}: cannot be written: {error.strerror or error}") from None
    progress(len(indices), len(indices))
    return None


def save_picture(picture: np.ndarray, file: Path) -> None:
    """Write one picture as a `.png` file."""
    check_ending(file)
    if file.suffix.lower() != ".png":
        raise TfsmError(f"{file}: one picture is saved as .png")
    try:
        with whole(file) as draft:
            _imageio().imwrite(draft, picture)
    except OSError as error:
        raise TfsmError(f"{file}: cannot be written: {error.strerror or error}") from None


def _options(kind: str, rate: float) -> dict[str, Any]:
    if kind == ".gif":
        return {"format": "GIF", "duration": 1000.0 / rate, "loop": 0}
    return {"format": "FFMPEG", "fps": rate, "codec": "libx264", "macro_block_size": 2, "quality": 8}


def _imageio() -> Any:
    return optional("imageio.v2", extra="replay", purpose="saving")


def _title(words: str, width: int) -> np.ndarray:
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, 28), (252, 252, 250))
    font = ImageFont.load_default(18)
    draw = ImageDraw.Draw(image)
    draw.text(((width - draw.textlength(words, font=font)) / 2, 4), words, fill=(38, 38, 46), font=font)
    return np.asarray(image)
