"""Films of answers: what is drawn where, and how long they are."""

from __future__ import annotations

import numpy as np
import pytest

from tfsm.render.canvas import CHAMPION, RIGHT, TARGET, WRONG, AnswersFilm, pick_rows

pytest.importorskip("pygame")


def make_film(answers: np.ndarray, middle: float | None = 0.5) -> AnswersFilm:
    targets = np.array([0.0, 1.0])
    return AnswersFilm(["none", "one"], targets, answers, (0.0, 1.0), ("even", "odd"), lambda count: f"{count}", middle)


def find(picture: np.ndarray, color: tuple[int, int, int]) -> np.ndarray:
    """Return the places `[N, 2]`, row and column, of pixels of about this color."""
    return np.argwhere(np.abs(picture.astype(int) - color).max(axis=-1) < 20)


def test_answers_are_drawn_in_their_place_and_color() -> None:
    still = make_film(np.array([[0.25, 0.75], [0.1, 0.1]])).still()
    height, width, _ = still.shape
    champion = find(still, CHAMPION)
    upper, lower = (champion[(champion[:, 0] < height / 2) == is_upper] for is_upper in (True, False))
    right, wrong = find(still, RIGHT), find(still, WRONG)
    # The second network's answers are at the same place, and wrong in the second row only.
    assert right[:, 1].mean() == pytest.approx(wrong[:, 1].mean(), abs=2)
    assert right[:, 0].mean() < wrong[:, 0].mean()
    assert right[:, 1].mean() < upper[:, 1].mean() < lower[:, 1].mean() < width
    rings = find(still, TARGET)
    assert rings[:, 1].min() < right[:, 1].min()
    assert rings[:, 1].max() > lower[:, 1].max()


def test_without_a_middle_nothing_is_wrong() -> None:
    still = make_film(np.array([[0.25, 0.75], [0.1, 0.1]]), middle=None).still()
    assert len(find(still, WRONG)) == 0
    assert len(find(still, RIGHT)) > 0


def test_answers_beyond_the_axis_and_broken_ones_are_at_its_ends() -> None:
    film = make_film(np.array([[0.5, 0.5], [1e9, np.nan]]))
    ends = make_film(np.array([[0.5, 0.5], [1.0, 0.0]]))
    np.testing.assert_array_equal(find(film.still(), CHAMPION), find(ends.still(), CHAMPION))
    assert find(film.still(), RIGHT).shape == find(ends.still(), RIGHT).shape


def test_the_film_shows_more_and_more_answers() -> None:
    film = make_film(np.full([9, 2], 0.3))
    drawn = [len(find(film.frame(index), CHAMPION)) for index in range(len(film))]
    assert drawn == sorted(drawn)
    assert 0 < drawn[0] < drawn[-1]
    np.testing.assert_array_equal(film.frame(len(film) - 1), film.still())
    assert all(side % 2 == 0 for side in film.still().shape[:2])


def test_many_rows_are_thinned_out_evenly() -> None:
    assert pick_rows(3).tolist() == [0, 1, 2]
    picked = pick_rows(1_000)
    assert (picked[0], picked[-1], len(set(picked.tolist()))) == (0, 999, 16)
