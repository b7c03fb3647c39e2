"""A film of an episode that is still going on."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from tfsm.contracts import Film
from tfsm_envs.worlds import Moment, World


class Recording:
    """Keeps where the first agent has been; of what it sees, a film shows the last alone.

    Args:
        world: where it is.
        moment: where it starts.
    """

    def __init__(self, world: World, moment: Moment) -> None:
        self._world, self._frame = world, 0
        poses = world.poses(moment)
        self._trail = np.zeros([1, world.frames + 1, poses.shape[-1]])
        self._seen = moment.seen[0].copy()
        self._trail[0, 0] = poses[0, -1]

    @cached_property
    def _film(self) -> Film:
        # It looks at arrays that go on changing.
        return self._world.film(self._trail, np.broadcast_to(self._seen, [self._trail.shape[1], *self._seen.shape]))

    def begin(self, moment: Moment) -> None:
        """Start again."""
        self._frame = 0
        self._trail[0, 0] = self._world.poses(moment)[0, -1]
        self._seen[...] = moment.seen[0]

    def add(self, moment: Moment) -> None:
        """Go on with a decision."""
        poses = self._world.poses(moment)[0]
        left = self._trail[0, self._frame + 1 :][: len(poses)]
        left[...] = poses[: len(left)]
        self._frame += len(left)
        self._seen[...] = moment.seen[0]

    def picture(self) -> np.ndarray:
        """Draw the present: `[height, width, 3]`, bytes."""
        return self._film.frame(self._frame)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the film: a canvas cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name != "_film"}
