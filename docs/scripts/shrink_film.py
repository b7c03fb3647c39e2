"""Make a film of `tfsm replay` small enough for a page: fewer frames, fewer pixels, fewer colors.

For example `python -m docs.scripts.shrink_film film.gif docs/images/film.gif --every 3 --width 420`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image, ImageSequence

COLORS = 32
LAST_FRAME_MILLISECONDS = 1_500


def shrink(source: Path, target: Path, every: int, width: int) -> None:
    """Keep every n-th frame, and the last one, at the given width; the film takes as long as before."""
    with Image.open(source) as film:
        duration = film.info.get("duration", 50)
        frames = [frame.convert("RGB") for frame in ImageSequence.Iterator(film)]
    kept = [*frames[:-1:every], frames[-1]]
    size = (width, round(kept[0].height * width / kept[0].width))
    small = [frame.resize(size, Image.Resampling.LANCZOS) for frame in kept]
    # One palette for all frames, from the last one, which shows the most: frames then differ only where they move.
    palette = small[-1].quantize(COLORS)
    drawn = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in small]
    times = [duration * every] * (len(drawn) - 1) + [LAST_FRAME_MILLISECONDS]
    drawn[0].save(target, save_all=True, append_images=drawn[1:], duration=times, loop=0, optimize=True)
    print(f"{target}: {len(drawn)} frames, {size[0]} x {size[1]}, {target.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--every", type=int, default=2, help="keep every N-th frame")
    parser.add_argument("--width", type=int, default=480, help="width in pixels")
    given = parser.parse_args()
    shrink(given.source, given.target, given.every, given.width)
