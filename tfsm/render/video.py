"""Films: recorded frame by frame, joined side by side, saved as GIF, MP4 or PNG, and played in a window."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tfsm.abilities import Film
from tfsm.errors import TfsmError, import_optional
from tfsm.render.canvas import open_window
from tfsm.utils.files import atomic_write

FILM_SUFFIXES: Final = (".gif", ".mp4", ".png")
_GIF_RATE: Final = 20.0
"""Frames per second. Players slow down faster ones, and files grow."""


class SideBySide:
    """Films of the same size side by side, each with a title.

    Args:
        films: the films with their titles.
    """

    def __init__(self, films: Sequence[tuple[Film, str]]) -> None:
        self._films = films
        self.rate = films[0][0].rate

    def __len__(self) -> int:
        """Return the length of the longest film."""
        return max(len(film) for film, _ in self._films)

    def frame(self, index: int) -> np.ndarray:
        """Return a frame of all films. A film that has ended shows its last frame."""
        return self._join([film.frame(min(index, len(film) - 1)) for film, _ in self._films])

    def still(self) -> np.ndarray:
        """Return the still pictures of all films."""
        return self._join([film.still() for film, _ in self._films])

    def _join(self, pictures: list[np.ndarray]) -> np.ndarray:
        titles = [
            _render_title(title, picture.shape[1]) for (_, title), picture in zip(self._films, pictures, strict=True)
        ]
        parts = [np.concatenate(pair) for pair in zip(titles, pictures, strict=True)]
        return np.concatenate(parts, axis=1)


class WithTiles:
    """A film with smaller films below it, four in a row. A small film that has ended turns pale.

    Args:
        main: the large film.
        others: the small films, with frames of the same size; at least one.
    """

    def __init__(self, main: Film, others: Sequence[Film]) -> None:
        self._main, self._others = main, others
        self.rate = main.rate

    def __len__(self) -> int:
        """Return the length of the longest film."""
        return max(len(film) for film in (self._main, *self._others))

    def frame(self, index: int) -> np.ndarray:
        """Return a frame of all films. A film that has ended shows its last frame."""
        large = self._main.frame(min(index, len(self._main) - 1))
        tiles = [_shrink(film.frame(min(index, len(film) - 1)), paler=index >= len(film)) for film in self._others]
        height, width, _ = tiles[0].shape
        rows = -(-len(tiles) // TILES_PER_SIDE)
        below = np.full((rows * height, large.shape[1], 3), 255, np.uint8)
        for number, tile in enumerate(tiles):
            row, column = divmod(number, TILES_PER_SIDE)
            below[row * height : (row + 1) * height, column * width : (column + 1) * width] = tile
        return _pad_to_even(np.concatenate([large, below]))

    def still(self) -> np.ndarray:
        """Return the last frame, which shows which films lasted."""
        return self.frame(len(self) - 1)


def _shrink(picture: np.ndarray, *, paler: bool) -> np.ndarray:
    """Return a picture at a fraction of its size, with a border."""
    # Sums of every n-th pixel: much faster than a mean over axes.
    height, width = (side // TILES_PER_SIDE for side in picture.shape[:2])
    cut = picture[: height * TILES_PER_SIDE, : width * TILES_PER_SIDE].astype(np.uint16)
    parts = [cut[i::TILES_PER_SIDE, j::TILES_PER_SIDE] for i, j in np.ndindex(TILES_PER_SIDE, TILES_PER_SIDE)]
    small = sum(parts[1:], start=parts[0]) // len(parts)
    if paler:
        small = small // 4 + 150
    small[0], small[:, 0] = 128, 128
    return small.astype(np.uint8)


def check_film_path(file: Path) -> None:
    """Raise an error unless a film can be written to this file."""
    if file.suffix.lower() not in FILM_SUFFIXES:
        raise TfsmError(f"{file}: unknown format; use a file name ending in {', '.join(FILM_SUFFIXES)}")
    if not file.parent.is_dir():
        raise TfsmError(f"{file}: there is no directory {str(file.parent)!r}")
    _imageio()


def save_film(film: Film, file: Path, *, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
    """Save a film as an animation or as a still picture, according to the file name.

    Args:
        film: the film.
        file: a `.gif`, `.mp4` or `.png` file. An existing file is replaced when the new one is complete.
        progress: called with the number of frames written and their total.
    """
    check_film_path(file)
    kind = file.suffix.lower()
    if kind == ".png":
        return save_picture(film.still(), file)
    stride = max(1, round(film.rate / _GIF_RATE)) if kind == ".gif" else 1
    indices = range(0, len(film), stride)
    imageio = _imageio()
    try:
        with (
            atomic_write(file) as temporary,
            imageio.get_writer(temporary, **_writer_options(kind, film.rate / stride)) as writer,
        ):
            for done, index in enumerate(indices):
                progress(done, len(indices))
                writer.append_data(film.frame(index))
    except OSError as error:
        raise TfsmError(f"{file}: cannot be written: {error.strerror or error}") from None
    progress(len(indices), len(indices))
    return None


def save_picture(picture: np.ndarray, file: Path) -> None:
    """Save a picture as a `.png` file."""
    check_film_path(file)
    if file.suffix.lower() != ".png":
        raise TfsmError(f"{file}: a picture needs a file name ending in .png")
    try:
        with atomic_write(file) as temporary:
            _imageio().imwrite(temporary, picture)
    except OSError as error:
        raise TfsmError(f"{file}: cannot be written: {error.strerror or error}") from None


def _writer_options(kind: str, rate: float) -> dict[str, Any]:
    if kind == ".gif":
        return {"format": "GIF", "duration": 1000.0 / rate, "loop": 0}
    return {"format": "FFMPEG", "fps": rate, "codec": "libx264", "macro_block_size": 2, "quality": 8}


def _imageio() -> Any:
    return import_optional("imageio.v2", extra="replay", purpose="saving")


def _render_title(text: str, width: int) -> np.ndarray:
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, 28), (252, 252, 250))
    font = ImageFont.load_default(18)
    draw = ImageDraw.Draw(image)
    draw.text(((width - draw.textlength(text, font=font)) / 2, 4), text, fill=(38, 38, 46), font=font)
    return np.asarray(image)


KEYS: Final = "space: pause, left and right: one frame, up and down: faster and slower, home: replay, q: quit"


class _StillFilm:
    """A film with a single frame."""

    rate = 10.0

    def __init__(self, picture: np.ndarray) -> None:
        self._picture = picture

    def __len__(self) -> int:
        return 1

    def frame(self, index: int) -> np.ndarray:
        return self._picture

    def still(self) -> np.ndarray:
        return self._picture


def show_picture(picture: np.ndarray, title: str) -> None:
    """Show a picture in a window until the user closes it."""
    show_film(_StillFilm(picture), title)


def show_film(film: Film, title: str) -> None:
    """Play a film in a window until the user closes it. `KEYS` lists the controls."""
    pygame = import_optional("pygame", extra="replay", purpose="a window")
    try:
        first = film.frame(0)
        screen = open_window(pygame, (first.shape[1], first.shape[0]))
    except pygame.error as error:
        raise TfsmError(f"no window can be opened here ({error}); use --save FILE to write a file instead") from None
    try:
        _play(pygame, screen, film, title)
    finally:
        pygame.quit()


def _play(pygame: Any, screen: Any, film: Film, title: str) -> None:
    clock, index, speed, paused = pygame.time.Clock(), 0, 1.0, len(film) == 1
    shown = -1
    while True:
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                return
            if event.type != pygame.KEYDOWN:
                continue
            if event.key in (pygame.K_q, pygame.K_ESCAPE):
                return
            if event.key == pygame.K_SPACE:
                paused = not paused
            elif event.key in (pygame.K_LEFT, pygame.K_RIGHT):
                paused = True
                index += 1 if event.key == pygame.K_RIGHT else -1
            elif event.key in (pygame.K_UP, pygame.K_DOWN):
                speed = min(8.0, max(0.125, speed * (2.0 if event.key == pygame.K_UP else 0.5)))
            elif event.key == pygame.K_HOME:
                index, paused = 0, False
        index = min(max(index, 0), len(film) - 1)
        if index != shown:
            picture = film.frame(index)
            screen.blit(pygame.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))
            pygame.display.set_caption(f"{title}: frame {index + 1} of {len(film)}, {speed:g}x")
            pygame.display.flip()
            shown = index
        clock.tick(film.rate * speed if not paused else 30)
        index += 0 if paused else 1


MIN_SIDE: Final = 256
"""The minimum length of a picture's longer side in pixels."""
TILES_PER_SIDE: Final = 4
"""A still shows this many frames per row, in as many rows."""


class RecordedFilm:
    """A film of recorded frames, all of the same size.

    Args:
        rate: frames per second.
    """

    def __init__(self, rate: float) -> None:
        self.rate = float(rate)
        self._shape: tuple[int, ...] = ()
        # A minute of a large screen takes a gigabyte. Most of a screen has one color, so it compresses well.
        self._frames: list[bytes] = []

    def add(self, picture: np.ndarray) -> None:
        """Record a frame, an array `[height, width, 3]` of bytes."""
        self._shape = self._shape or picture.shape
        self._frames.append(zlib.compress(picture.tobytes(), 1))

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._frames)

    def frame(self, index: int) -> np.ndarray:
        """Return a frame. If it is small, each pixel is enlarged to a square."""
        factor = math.ceil(MIN_SIDE / max(self._shape))
        return _pad_to_even(self._decompress(index).repeat(factor, axis=0).repeat(factor, axis=1))

    def still(self) -> np.ndarray:
        """Return frames from the first to the last, arranged in rows."""
        indices = np.linspace(0, len(self) - 1, TILES_PER_SIDE * TILES_PER_SIDE).round().astype(int)
        tiles = np.stack(
            [np.pad(self._decompress(int(i)), ((0, 2), (0, 2), (0, 0)), constant_values=128) for i in indices]
        )
        height, width = tiles.shape[1:3]
        rows = tiles.reshape(TILES_PER_SIDE, TILES_PER_SIDE, height, width, 3).transpose(0, 2, 1, 3, 4)
        return _pad_to_even(np.ascontiguousarray(rows.reshape(TILES_PER_SIDE * height, TILES_PER_SIDE * width, 3)))

    def _decompress(self, index: int) -> np.ndarray:
        return np.frombuffer(zlib.decompress(self._frames[index]), np.uint8).reshape(self._shape)


def _pad_to_even(picture: np.ndarray) -> np.ndarray:
    """Add a row or a column if their number is odd. Most video formats require even numbers."""
    height, width, _ = picture.shape
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
