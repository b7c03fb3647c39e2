"""Films are recorded, played in a window and steered by keys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tfsm.render import video as window
from tfsm.render.video import RecordedFilm, WithTiles

pygame = pytest.importorskip("pygame")


class Numbers:
    """A film whose frames have their index as brightness."""

    rate = 1000.0

    def __init__(self) -> None:
        self.shown: list[int] = []

    def __len__(self) -> int:
        return 5

    def frame(self, index: int) -> np.ndarray:
        self.shown.append(index)
        return np.full([20, 30, 3], index, np.uint8)

    def still(self) -> np.ndarray:
        return self.frame(0)


@pytest.fixture(autouse=True)
def _no_display(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    yield
    pygame.quit()


def press(*keys: int) -> list[pygame.event.Event]:
    return [pygame.event.Event(pygame.KEYDOWN, key=key) for key in keys]


def play(monkeypatch: pytest.MonkeyPatch, *turns: list[pygame.event.Event]) -> list[int]:
    """Return the frames that are drawn for these events, one list per turn, until the window is closed."""
    film, left = Numbers(), list(turns)

    def events() -> list[pygame.event.Event]:
        return left.pop(0) if left else [pygame.event.Event(pygame.QUIT)]

    monkeypatch.setattr(pygame.event, "get", events)
    window.show_film(film, "test")
    return film.shown[1:]  # the first frame is drawn once to know its size


def test_a_film_stops_at_its_last_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(monkeypatch, *[[]] * 8) == [0, 1, 2, 3, 4]


def test_space_pauses_and_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    space = press(pygame.K_SPACE)
    assert play(monkeypatch, [], space, [], [], space, []) == [0, 1, 2]


def test_arrows_go_frame_by_frame_within_the_film(monkeypatch: pytest.MonkeyPatch) -> None:
    right, left = press(pygame.K_RIGHT), press(pygame.K_LEFT)
    assert play(monkeypatch, left, right, right, left, *[right] * 6) == [0, 1, 2, 1, 2, 3, 4]


def test_home_plays_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(monkeypatch, *[[]] * 5, press(pygame.K_HOME), []) == [0, 1, 2, 3, 4, 0, 1]


@pytest.mark.parametrize("key", [pygame.K_q, pygame.K_ESCAPE])
def test_quit_keys_close_the_window(monkeypatch: pytest.MonkeyPatch, key: int) -> None:
    assert play(monkeypatch, [], press(key), []) == [0]


def test_speed_changes_by_factors_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    captions: list[str] = []
    monkeypatch.setattr(pygame.display, "set_caption", captions.append)
    play(monkeypatch, [], press(pygame.K_UP), press(pygame.K_DOWN, pygame.K_DOWN))
    assert [caption.rsplit(" ", 1)[1] for caption in captions] == ["1x", "2x", "0.5x"]


def test_a_picture_is_a_film_of_one_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [[], []]
    monkeypatch.setattr(pygame.event, "get", lambda: left.pop() if left else [pygame.event.Event(pygame.QUIT)])
    window.show_picture(np.zeros([10, 10, 3], np.uint8), "one")
    assert not left


def film(height: int, width: int, count: int) -> RecordedFilm:
    made = RecordedFilm(30)
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
    made = RecordedFilm(30)
    small = np.random.default_rng(0).integers(0, 255, (2, 3, 3)).astype(np.uint8)
    made.add(small)
    side = 86  # 3 pixels become 258
    np.testing.assert_array_equal(made.frame(0)[: 2 * side : side, : 3 * side : side], small)


def test_a_still_shows_frames_from_first_to_last() -> None:
    still = film(4, 4, 31).still()
    tiles = [int(still[6 * row, 6 * column].max()) for row in range(4) for column in range(4)]
    assert tiles == list(range(0, 31, 2))


def test_tiles_are_below_and_turn_pale_when_they_have_ended() -> None:
    large, short = film(400, 600, 3), film(400, 600, 1)
    tiled = WithTiles(large, [large, short, large, large, large])
    assert (len(tiled), tiled.rate) == (3, large.rate)
    first, last = tiled.frame(0), tiled.frame(2)
    assert first.shape == last.shape == (400 + 2 * 100, 600, 3)
    np.testing.assert_array_equal(last[:400], large.frame(2))
    assert (first[500:, 150:] == 255).all()  # no sixth tile
    center = (slice(430, 470), slice(190, 260))  # of the second tile
    np.testing.assert_allclose(last[center], 0.25 * first[center].astype(float) + 150, atol=1.01)
    np.testing.assert_array_equal(tiled.still(), last)
