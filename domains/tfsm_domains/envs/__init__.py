"""The hard maze and the pixel mazes as Gymnasium environments; importing this module registers them."""

from __future__ import annotations

import importlib
from typing import Any, Final, NamedTuple

from tfsm.errors import import_optional

NAMESPACE: Final = "tfsm"


class EnvEntry(NamedTuple):
    """What is registered for an environment before it is imported; the numbers are those of the default maze."""

    module: str
    decisions: int
    threshold: float
    """The return of a solved episode."""


ENTRIES: Final = {
    "HardMaze": EnvEntry("hard_maze", 134, 451.0),
    "TopdownMaze": EnvEntry("pixel_mazes", 40, 26.0),
    "FirstPersonMaze": EnvEntry("pixel_mazes", 100, 18.0),
}


def register_envs() -> None:
    """Register the environments; Gymnasium before 1.0 calls this, as an entry point of the group `gymnasium.envs`."""
    import_optional("gymnasium", extra="gym", purpose="tfsm_domains.envs")
    # The submodule: where entry points are read, that is while `gymnasium` itself is imported.
    registration: Any = importlib.import_module("gymnasium.envs.registration")
    for name, entry in ENTRIES.items():
        identity = f"{NAMESPACE}/{name}-v0"
        if identity not in registration.registry:
            registration.register(
                identity,
                entry_point=f"tfsm_domains.envs.{entry.module}:{name}Env",
                vector_entry_point=f"tfsm_domains.envs.{entry.module}:{name}VectorEnv",
                reward_threshold=entry.threshold,
                max_episode_steps=entry.decisions,
            )


register_envs()
