"""Films give back what was put into them, large enough to be seen."""

from __future__ import annotations

import numpy as np
import pytest

from tfsm.render.video import PictureFilm


def film(height: int, width: int, count: int) -> PictureFilm:
    made = PictureFilm(30)
    for i in range(count):
        made.add(np.full((height, width, 3), i, np.uint8))
    return made


@pytest.mark.parametrize(("height", "width", "shape"), [(300, 400, (300, 400, 3)), (301, 399, (302, 400, 3))])
def test_a_large_picture_is_itself_with_even_sides(height: int, width: int, shape: tuple[int, ...]) -> None:
    made = film(height, width, 3)
    assert len(made) == 3
    assert [int(made.frame(i).max()) for i in range(3)] == [0, 1, 2]
    assert made.frame(0).shape == shape


def test_each_pixel_of_a_small_screen_becomes_a_square() -> None:
    made = PictureFilm(30)
    small = np.random.default_rng(0).integers(0, 255, (2, 3, 3)).astype(np.uint8)
    made.add(small)
    side = 86  # 3 pixels become 258
    np.testing.assert_array_equal(made.frame(0)[: 2 * side : side, : 3 * side : side], small)


def test_a_still_goes_from_the_first_to_the_last() -> None:
    still = film(4, 4, 31).still()
    tiles = [int(still[6 * row, 6 * column].max()) for row in range(4) for column in range(4)]
    assert tiles == list(range(0, 31, 2))
