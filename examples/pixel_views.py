"""Draw the pixel mazes: the map, views from above, and frames in first person.

    python examples/pixel_views.py --out views.png [--maze FILE]

Needs matplotlib and pygame (`pip install 'tfsm[plot,replay]'`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes

from tfsm_domains.pixel_maze.drawing import draw_layout
from tfsm_domains.pixel_maze.first_person import FirstPersonMaze
from tfsm_domains.pixel_maze.layout import Square
from tfsm_domains.pixel_maze.raycast import draw
from tfsm_domains.pixel_maze.topdown import TopdownMaze

ABOVE = {
    "the start": Square(1, 1),
    "an intersection": Square(3, 5),
    "in between": Square(3, 4),
    "at a wall": Square(1, 4),
}
POSES = {
    "at the start": (1.5, 1.5, 0.0),
    "a right turn ahead": (6.5, 1.5, 0.0),
    "at an angle": (7.5, 3.5, 130.0),
    "near a wall": (1.5, 1.5, 180.0),
}
"""x and y in squares, and the heading in degrees, clockwise on the map."""


def main() -> None:
    """Draw the map and two rows of views."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--maze", default="stairs", help="maze file, or a built-in maze")
    arguments = parser.parse_args()
    above, inside = TopdownMaze(maze=arguments.maze), FirstPersonMaze(maze=arguments.maze)
    figure = plt.figure(figsize=(11, 4.6), layout="constrained")
    plan, views = figure.subfigures(1, 2, width_ratios=[1, 2])
    show(plan.subplots(), draw_layout(above.layout).image(), f"{len(above.layout.path)} squares to touch")
    panels = views.subplots(2, 4)
    grid = above.grid
    for axes, (title, square) in zip(panels[0], ABOVE.items(), strict=True):
        show(axes, grid.views[grid.view[grid.squares.index(square)]], title)
    poses = tf.constant(list(POSES.values()), tf.float64)
    frames = draw(inside.walls, None, poses[:, :2], poses[:, 2]).numpy()
    for axes, title, frame in zip(panels[1], POSES, frames, strict=True):
        show(axes, frame / 255.0, title)
    figure.savefig(arguments.out, dpi=110)


def show(axes: Axes, picture: np.ndarray, title: str) -> None:
    """Show an image with its title."""
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1)
    axes.set_title(title, fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])


if __name__ == "__main__":
    main()
