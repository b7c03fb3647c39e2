from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.reference import raycast as reference
from tfsm_domains.pixel_maze.layout import Square, read_layout
from tfsm_domains.pixel_maze.raycast import (
    BACKWARD,
    FORWARD,
    LEFT,
    NONE,
    RIGHT,
    STEP,
    TURN,
    Pose,
    Walls,
    draw,
    move,
    start_poses,
    view,
    walls_of,
)

LAYOUT = read_layout(None)
WALLS = walls_of(LAYOUT)
X, DOWN, BACK, UP = 0.0, 90.0, 180.0, 270.0


def room(rows: int, columns: int) -> Walls:
    walls = np.ones((rows, columns), bool)
    walls[1:-1, 1:-1] = False
    return walls


def at(x: float, y: float, heading: float) -> Pose:
    return Pose(tf.constant([[x, y]], tf.float64), tf.constant([heading], tf.float64))


def frame(walls: Walls, pose: Pose, goal: Square | None = None, size: int = 64) -> np.ndarray:
    return draw(walls, goal, pose.position, pose.heading, size).numpy()[0]


def after(walls: Walls, pose: Pose, *actions: int) -> Pose:
    for action in actions:
        pose = move(walls, pose, tf.fill(pose.heading.shape, action))
    return pose


def poses_anywhere(count: int, seed: int) -> Pose:
    rng = np.random.default_rng(seed)
    free = rng.permutation(np.argwhere(~WALLS).repeat(-(-count // (~WALLS).sum()), axis=0))[:count]
    return Pose(tf.constant(free[:, ::-1] + rng.random((count, 2))), tf.constant(rng.uniform(-720, 720, count)))


@pytest.mark.sample(9)
@pytest.mark.parametrize("how", ["xla", "graph", "eager"])
@pytest.mark.parametrize(("goal", "size"), [(LAYOUT.end, 64), (None, 64), (LAYOUT.end, 21)])
def test_frames_are_those_of_the_reference(how: str, goal: Square | None, size: int) -> None:
    def drawn(pose: Pose) -> tf.Tensor:
        return draw(WALLS, goal, pose.position, pose.heading, size)

    pose = poses_anywhere(500, seed=size)
    found = (drawn if how == "eager" else tf.function(drawn, jit_compile=how == "xla", autograph=False))(pose).numpy()
    assert found.shape == (500, size, size)
    assert found.dtype == np.uint8
    expected = [
        reference.frame(WALLS.tolist(), goal, x, y, heading, size)
        for (x, y), heading in zip(pose.position.numpy().tolist(), pose.heading.numpy().tolist(), strict=True)
    ]
    # Where a ray meets a corner, or a cut-off an integer, to the last digit, a column may differ. Here the
    # last digit is the sixteenth, so that even one column of these 32,000 is unlikely.
    columns = (found != np.array(expected)).any(axis=-2)
    assert columns.sum() <= 1


@pytest.mark.parametrize("heading", [X, DOWN, BACK, UP])
def test_rays_straight_along_an_axis_are_drawn_too(heading: float) -> None:
    pose = at(5.5, 5.5, heading)  # the middle column's ray is parallel to the grid lines
    np.testing.assert_array_equal(frame(WALLS, pose), reference.frame(WALLS.tolist(), None, 5.5, 5.5, heading))


@pytest.mark.parametrize(
    ("distance", "x_face", "y_face", "top", "bottom"),
    # 255 - 22.5 * distance, and 0.65 of that, cut off; the line has int(64 / distance) pixels, and one more.
    [(1, 232, 151, 0, 63), (2, 210, 136, 16, 48), (5, 142, 92, 26, 38), (0.25, 249, 162, 0, 63), (10, 30, 19, 29, 35)],
)
def test_the_height_and_brightness_of_a_wall_are_exact(
    distance: float, x_face: int, y_face: int, top: int, bottom: int
) -> None:
    walls = room(41, 41)
    for heading, gray in ((X, x_face), (BACK, x_face), (DOWN, y_face), (UP, y_face)):
        ahead = np.array([math.cos(math.radians(heading)), math.sin(math.radians(heading))]).round()
        x, y = 20.5 + (19.5 - distance) * ahead
        expected = np.where(np.arange(64) >= 32, 92, 0)
        expected[top : bottom + 1] = gray
        np.testing.assert_array_equal(frame(walls, at(x, y, heading))[:, 28:37], np.tile(expected[:, None], 9))


def test_the_goal_is_a_red_block_that_can_be_entered() -> None:
    walls, goal = room(9, 20), Square(4, 8)
    # At 1: (232, 77, 77), in half light (151, 50, 50). At 5 no green is left: (142, 0, 0).
    for pose, gray in ((at(7, 4.5, X), 110), (at(8.5, 3, DOWN), 71), (at(3, 4.5, X), 30), (at(10, 4.5, BACK), 110)):
        assert frame(walls, pose, goal)[32, 32] == gray
        assert frame(walls, pose)[32, 32] != gray
    entered = after(walls, at(7.5, 4.5, X), FORWARD, FORWARD)
    assert float(entered.position[0, 0]) > goal.column
    np.testing.assert_array_equal(frame(walls, entered, goal), frame(walls, entered))


@pytest.mark.parametrize("y_face", [False, True])
def test_the_goal_fades_as_in_the_reference(y_face: bool) -> None:
    walls, goal = room(20, 20), Square(3, 3)
    away = np.linspace(4.01, 18.9, 1500)
    beside = np.full_like(away, 3.5)
    position = np.stack([beside, away] if y_face else [away, beside], axis=-1)
    heading = tf.fill(away.shape, tf.constant(UP if y_face else BACK, tf.float64))
    found = draw(walls, goal, tf.constant(position), heading, 8)[:, 4, 4]  # the pixel straight ahead
    expected = [reference.gray(*reference.colour(distance, y_face, True)) for distance in away - 4]
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 30


def test_both_sides_of_a_corridor_look_the_same() -> None:
    seen = frame(room(3, 20), at(1.5, 1.5, X))
    # Column i looks as far to a side as column 64 - i to the other; column 0 looks farther than any.
    np.testing.assert_array_equal(seen[:, 1:], seen[:, :0:-1])
    assert len(np.unique(seen[32])) > 10


def test_turning_moves_the_view_the_other_way() -> None:
    walls, block = room(20, 20), Square(11, 15)

    def column(*actions: int) -> float:
        pose = after(walls, at(10.5, 10.5, X), *actions)
        return float(np.flatnonzero(frame(walls, pose, block)[32] != frame(walls, pose)[32]).mean())

    assert column() > 32  # rows count downwards, so that the block is on the right hand
    assert column(RIGHT) < column() < column(LEFT)


def test_observations_are_gray_levels_from_0_to_1() -> None:
    pose = poses_anywhere(10, seed=1)
    seen = view(WALLS, LAYOUT.end, pose.position, pose.heading)
    assert seen.dtype == tf.float32
    np.testing.assert_array_equal(np.rint(seen * 255), draw(WALLS, LAYOUT.end, pose.position, pose.heading))
    assert 0 <= float(tf.reduce_min(seen)) < float(tf.reduce_max(seen)) <= 1


@pytest.mark.sample(5)
@pytest.mark.parametrize("jit", [True, False])
def test_a_frame_is_the_same_alone_and_in_a_batch(jit: bool) -> None:
    call = tf.function(
        lambda pose: draw(WALLS, LAYOUT.end, pose.position, pose.heading), jit_compile=jit, autograph=False
    )
    pose = poses_anywhere(12, seed=2)
    together = call(pose).numpy()
    for i in (0, 11):
        np.testing.assert_array_equal(call(Pose(pose.position[i : i + 1], pose.heading[i : i + 1]))[0], together[i])
        np.testing.assert_array_equal(call(Pose(pose.position[i], pose.heading[i])), together[i])
    nested = call(Pose(tf.reshape(pose.position, [3, 4, 2]), tf.reshape(pose.heading, [3, 4])))
    np.testing.assert_array_equal(nested, together.reshape(3, 4, 64, 64))


def test_walkers_start_in_the_middle_of_the_start_and_look_along_x() -> None:
    pose = start_poses(LAYOUT, 3)
    assert pose.position.numpy().tolist() == [[LAYOUT.start.column + 0.5, LAYOUT.start.row + 0.5]] * 3
    assert pose.heading.numpy().tolist() == [0] * 3


def test_each_action_has_its_effect() -> None:
    walls, heading = room(9, 9), 30.0
    pose = Pose(tf.fill([5, 2], tf.constant(4.5, tf.float64)), tf.fill([5], tf.constant(heading, tf.float64)))
    moved = move(walls, pose, tf.constant([FORWARD, LEFT, RIGHT, BACKWARD, NONE]))
    step = STEP * np.array([math.cos(math.radians(heading)), math.sin(math.radians(heading))])
    np.testing.assert_allclose(moved.position - 4.5, [step, 0 * step, 0 * step, -step, 0 * step], atol=1e-12)
    np.testing.assert_allclose(moved.heading - heading, [0, -TURN, TURN, 0, 0], atol=1e-12)


def test_opposite_actions_cancel() -> None:
    pose = poses_anywhere(20, seed=3)
    turned = after(WALLS, pose, *[LEFT] * 7, *[RIGHT] * 7)
    np.testing.assert_allclose(turned.heading, pose.heading, atol=1e-9)
    np.testing.assert_array_equal(turned.position, pose.position)
    walked = after(room(9, 9), at(4.5, 4.5, 77.0), FORWARD, FORWARD, BACKWARD, BACKWARD)
    np.testing.assert_allclose(walked.position, [[4.5, 4.5]], atol=1e-12)


def test_a_wall_stops_without_sliding() -> None:
    walls = room(9, 9)
    oblique = at(7.9, 4.5, 45.0)  # there is space along the wall
    np.testing.assert_array_equal(after(walls, oblique, FORWARD).position, oblique.position)
    np.testing.assert_allclose(after(walls, at(1.2, 4.5, X), BACKWARD).position, [[1.2, 4.5]])
    # Only the end of a step counts, so an agent can get close to a wall, and cut its corner.
    assert float(after(walls, at(7.5, 4.5, X), *[FORWARD] * 9).position[0, 0]) == pytest.approx(7.5 + STEP)
    walls[4, 4] = True
    past = after(walls, at(3.95, 4.1, -45.0), FORWARD).position.numpy()[0]
    assert np.floor(past).tolist() == [4, 3]


def test_no_agent_ever_enters_a_wall() -> None:
    rng = np.random.default_rng(4)
    pose = start_poses(LAYOUT, 200)
    step = tf.function(lambda pose, action: move(WALLS, pose, action), jit_compile=True, autograph=False)
    for _ in range(200):
        pose = step(pose, tf.constant(rng.choice(5, p=[0.6, 0.15, 0.15, 0.05, 0.05], size=200)))
        columns, rows = np.floor(pose.position.numpy()).astype(int).T
        assert not WALLS[rows, columns].any()
    assert len(set(zip(rows, columns, strict=True))) > 20


def test_an_agent_that_knows_the_path_touches_all_of_it_in_time() -> None:
    frames, hold = 400, 4
    step = tf.function(lambda pose, action: move(WALLS, pose, action), autograph=False)
    pose, touched = start_poses(LAYOUT, 1), {LAYOUT.start}
    for number in range(frames):
        x, y = pose.position.numpy()[0]
        touched.add(Square(int(y), int(x)))
        ahead = [square for square in LAYOUT.route() if square not in touched]
        if not ahead:
            break
        if number % hold == 0:
            bearing = math.degrees(math.atan2(ahead[0].row + 0.5 - y, ahead[0].column + 0.5 - x))
            off = (bearing - float(pose.heading[0]) + 180) % 360 - 180
            action = FORWARD if abs(off) < hold * TURN / 2 else RIGHT if off > 0 else LEFT
        pose = step(pose, tf.constant([action]))
    assert touched >= LAYOUT.path
    assert number < 250
