"""Finding Gymnasium and making its environments, or saying in one line why that cannot be."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tfsm.errors import TfsmError
from tfsm.extras import optional

PURPOSE: Final = "the domain 'gym'"
LIMIT: Final = 10_000
"""Steps of an episode where neither the user nor the environment has a limit: some never end by themselves."""
OURS: Final = "tfsm/"
"""The namespace of tfsm's own environments."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class Recipe(NamedTuple):
    """How to make an environment; it can be pickled."""

    name: str
    options: Mapping[str, Any]
    steps: int | None
    """Most steps of an episode, in place of the environment's own limit."""
    spec: Any = None
    """What is registered by that name, for a process in which it is not."""


def gymnasium() -> Any:
    """Import Gymnasium."""
    return optional("gymnasium", extra="gym", purpose=PURPOSE)


def parsed(text: str) -> dict[str, Any]:
    """Read keyword arguments, which are JSON, or a dict as Python writes it.

    >>> parsed('{"map_name": "8x8", "is_slippery": false}') == parsed("{'map_name': '8x8', 'is_slippery': False}")
    True
    """
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (TypeError, ValueError, SyntaxError):
            continue
        if isinstance(found, dict) and all(isinstance(key, str) for key in found):
            return found
    raise TfsmError(f'env_options={text}: expected keyword arguments as JSON, such as {{"map_name": "8x8"}}')


def make(recipe: Recipe, *, told: bool = True, render: bool = False) -> Any:
    """Make an environment.

    Args:
        recipe: which, and how.
        told: whether the user is told of a version that is out of date.
        render: whether it shall draw pictures.
    """
    gym = gymnasium()
    if recipe.name.startswith(OURS) and importlib.util.find_spec("tfsm_envs") is not None:
        importlib.import_module("tfsm_envs")
    if ":" in recipe.name and "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` has it: a user's module lies there
    options = dict(recipe.options) | ({"render_mode": "rgb_array"} if render else {})
    if recipe.steps is not None:
        options["max_episode_steps"] = recipe.steps
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            env = gym.make(recipe.spec or recipe.name, **{"disable_env_checker": True, **options})
        except Exception as error:
            raise TfsmError(f"the environment {recipe.name!r} cannot be made: {reason(error)}") from error
    for text in dict.fromkeys(_plain(str(warning.message)) for warning in said) if told else ():
        if "version" in text:
            warnings.warn(text, stacklevel=2)
    limited = env.spec is not None and env.spec.max_episode_steps is not None
    return env if limited else gym.wrappers.TimeLimit(env, LIMIT)


def registered(env: Any) -> Any:
    """Return what is registered of an environment; None where nothing is."""
    return gymnasium().registry.get(env.spec.id) if env.spec is not None else None


def reason(error: BaseException) -> str:
    """Return in one line what an error says; of its type only where it is not Gymnasium's."""
    words = " ".join(str(error).split())
    own = type(error).__module__.partition(".")[0] == "gymnasium"
    return words if own and words else f"{type(error).__name__}: {words}".removesuffix(": ")


def unsendable(name: str, error: BaseException) -> str:
    """Return what to tell of an environment that cannot be pickled, or not read again."""
    what = f"the environment {name!r}" if name else "the environment"
    return f"{what} cannot be sent to another process ({reason(error)}): use --set vector=sync"


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Gymnasium from warning of how environments are used."""
    logger = gymnasium().logger
    before, logger.min_level = logger.min_level, logger.ERROR
    try:
        yield
    finally:
        logger.min_level = before


def _plain(text: str) -> str:
    return " ".join(_COLOUR.sub("", text).removeprefix("WARN: ").split())
