"""Make one Gymnasium environment: import the package that registers it, preprocess it, and explain what goes wrong."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tfsm.errors import TfsmError, import_optional

PURPOSE: Final = "the domain 'gym'"
LIMIT: Final = 10_000
"""Steps per episode if neither the user nor the environment sets a limit; some environments never terminate."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class Package(NamedTuple):
    """A package that registers environments when it is imported."""

    pattern: str
    """Matches the beginning of their names."""
    module: str
    requirement: str
    """What to install."""


PACKAGES: Final = (
    Package(r"tfsm/", "tfsm_domains.envs", "'tfsm[gym]'"),
    Package(r"ALE/|\w+(NoFrameskip|Deterministic)-v\d", "ale_py", "ale-py"),
    Package(r"MiniGrid-|BabyAI-", "minigrid", "minigrid"),
    Package(r"MiniWorld-", "miniworld", "miniworld"),
    Package(r"miniwob/", "miniwob", "miniwob"),
    Package(r"Fetch|Hand(Reach|Manip)|(Ant|Point)Maze_|Adroit|FrankaK", "gymnasium_robotics", "gymnasium-robotics"),
    Package(r"(highway|merge|roundabout|parking|intersection|racetrack)(-\w+)*-v\d", "highway_env", "highway-env"),
    Package(r"Panda\w+-v\d", "panda_gym", "panda-gym"),
    Package(r"PyFlyt/", "PyFlyt.gym_envs", "PyFlyt"),
    Package(r"FlappyBird-", "flappy_bird_gymnasium", "flappy-bird-gymnasium"),
)  # fmt: skip
"""Packages whose names do not follow from those of their environments."""


class Preprocessing(NamedTuple):
    """The wrappers of Gymnasium around an environment."""

    text: bool = True
    """Whether text parts of observations are kept."""
    sticky: float | None = None
    frame_skip: int = 1
    grayscale: bool = False
    resize: int | None = None
    stack: int = 1
    clip_reward: float | None = None


class EnvConfig(NamedTuple):
    """How to make an environment; can be pickled."""

    name: str
    options: Mapping[str, Any]
    steps: int | None
    """Maximum steps per episode; None: the environment's own limit."""
    spec: Any = None
    """The spec registered under that name, for processes in which it is not registered."""
    preprocessing: Preprocessing = Preprocessing()


def gymnasium() -> Any:
    """Import Gymnasium."""
    return import_optional("gymnasium", extra="gym", purpose=PURPOSE)


def parse_env_options(text: str) -> dict[str, Any]:
    """Parse keyword arguments from JSON or a Python dict literal.

    >>> parse_env_options('{"map_name": "8x8"}') == parse_env_options("{'map_name': '8x8'}")
    True
    """
    for read in (json.loads, ast.literal_eval):
        try:
            options = read(text)
        except (TypeError, ValueError, SyntaxError):
            continue
        if isinstance(options, dict) and all(isinstance(key, str) for key in options):
            return options
    raise TfsmError(f'env_options={text}: expected keyword arguments as JSON, such as {{"map_name": "8x8"}}')


def make_env(config: EnvConfig, *, notify: Callable[[str], None] = lambda note: None, render: bool = False) -> Any:
    """Make an environment.

    Args:
        config: which environment, its options and its wrappers.
        notify: receives what Gymnasium and the simulator warn about, one line each.
        render: whether to render frames.
    """
    gym = gymnasium()
    if config.spec is None:
        import_package(config.name)
    options = _make_options(config, render)
    with _record_warnings(notify), _record_mujoco(config, notify):
        try:
            env = gym.make(config.spec or config.name, **{"disable_env_checker": True, **options})
        except Exception as error:
            why = f"{describe_env_error(error)}{_suggest_version(config.name, error)}"
            raise TfsmError(f"the environment {config.name!r} cannot be made: {why}") from error
        limited = env.spec is not None and env.spec.max_episode_steps is not None
        return preprocess(env if limited else gym.wrappers.TimeLimit(env, LIMIT), config)


def import_package(name: str) -> None:
    """Import the package that registers an environment, unless it is registered already.

    Args:
        name: the environment's name.
    """
    if ":" in name:
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))  # as with `python -m`, for modules of the user
        return
    if name in gymnasium().registry:
        return
    package = next((package for package in PACKAGES if re.match(package.pattern, name)), None)
    namespace = name.partition("/")[0].replace("-", "_")
    if package is not None:
        _import_package(name, package)
    elif "/" in name and namespace.isidentifier() and importlib.util.find_spec(namespace) is not None:
        _import_package(name, Package("", namespace, namespace))


def _import_package(name: str, package: Package) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(package.module)
    except ModuleNotFoundError as error:
        if error.name == package.module.partition(".")[0]:
            what = package.requirement.strip("'")
            raise TfsmError(f"{name} needs {what}: pip install {package.requirement}") from None
        raise TfsmError(f"{name} needs {package.module}, which cannot be imported: {error}") from error
    except TfsmError:
        raise
    except Exception as error:
        why = describe_env_error(error)
        raise TfsmError(f"{name} needs {package.module}, which cannot be imported: {why}") from error


def _make_options(config: EnvConfig, render: bool) -> dict[str, Any]:
    """Return the keyword arguments for `gymnasium.make`."""
    options = dict(config.options) | ({"render_mode": "rgb_array"} if render else {})
    if config.steps is not None:
        options["max_episode_steps"] = config.steps
    own, asked = _own_options(config), config.preprocessing
    # Atari games skip frames and repeat actions themselves, which would add to what the wrappers do.
    if "frameskip" in own and asked.frame_skip > 1:
        options.setdefault("frameskip", 1)
    if "repeat_action_probability" in own and asked.sticky is not None:
        options["repeat_action_probability"] = asked.sticky
    return options


def _own_options(config: EnvConfig) -> Mapping[str, Any]:
    """Return the arguments that an environment was registered with."""
    spec = config.spec or gymnasium().registry.get(config.name)
    return spec.kwargs if spec is not None else {}


def preprocess(env: Any, config: EnvConfig) -> Any:
    """Put Gymnasium's wrappers around an environment; raise a `TfsmError` that names the option that does not fit."""
    wrappers, asked = gymnasium().wrappers, config.preprocessing
    if not asked.text and isinstance(env.observation_space, gymnasium().spaces.Dict):
        kept = [key for key, space in env.observation_space.spaces.items() if not is_text(space)]
        if 0 < len(kept) < len(env.observation_space.spaces):
            env = wrappers.FilterObservation(env, kept)
    steps: list[tuple[str, Any]] = []
    if asked.sticky is not None and "repeat_action_probability" not in _own_options(config):
        steps.append((f"sticky={asked.sticky:g}", lambda env: wrappers.StickyAction(env, asked.sticky)))
    if asked.frame_skip > 1:
        steps.append(
            (f"frame_skip={asked.frame_skip}", lambda env: wrappers.MaxAndSkipObservation(env, asked.frame_skip))
        )
    if asked.grayscale:
        steps.append(("grayscale=yes", wrappers.GrayscaleObservation))
    if asked.resize is not None:
        side = (asked.resize, asked.resize)
        steps.append((f"resize={asked.resize}", lambda env: wrappers.ResizeObservation(env, side)))
    if asked.stack > 1:
        steps.append((f"stack={asked.stack}", lambda env: wrappers.FrameStackObservation(env, asked.stack)))
    if asked.clip_reward is not None:
        bound = asked.clip_reward
        steps.append((f"clip_reward={bound:g}", lambda env: wrappers.ClipReward(env, -bound, bound)))
    for option, wrap in steps:
        try:
            env = wrap(env)
        except gymnasium().error.DependencyNotInstalled:
            env.close()
            raise TfsmError(f"{option} needs OpenCV: pip install 'tfsm[atari]'") from None
        except Exception as error:
            space = type(env.observation_space).__name__
            shape = getattr(env.observation_space, "shape", None) or ""
            env.close()
            raise TfsmError(
                f"{option} does not fit the environment {config.name!r}, whose observations are {space}{shape}: "
                f"{describe_env_error(error)}"
            ) from error
    return env


def is_text(space: Any) -> bool:
    """Return whether the values of a space are text; some packages have spaces of their own for it."""
    return isinstance(space, gymnasium().spaces.Text) or getattr(space.dtype, "kind", "") == "U"


def registered_spec(env: Any) -> Any:
    """Return the registered spec of an environment, or None."""
    return gymnasium().registry.get(env.spec.id) if env.spec is not None else None


def _suggest_version(name: str, error: Exception) -> str:
    """Return a hint at the newest registered version if that may help, unless the error already has it."""
    message = str(error)
    if not isinstance(error, ImportError | gymnasium().error.Error):
        return ""
    match = re.fullmatch(r"(?:[\w.]+:)?(.+?)-v(\d+)", name)
    if match is None:
        return ""
    base, version = match[1], int(match[2])
    newest = max((spec.version or 0 for spec in gymnasium().registry.values() if _base_name(spec) == base), default=-1)
    found = f"{base}-v{newest}"
    return f"; did you mean {found!r}?" if newest > version and found not in message else ""


def _base_name(spec: Any) -> str:
    return f"{spec.namespace}/{spec.name}" if spec.namespace else str(spec.name)


def describe_env_error(error: BaseException) -> str:
    """Return an error's message on one line, with its type unless it is one of Gymnasium's own."""
    message = " ".join(str(error).split())
    is_gymnasium = type(error).__module__.partition(".")[0] == "gymnasium"
    return message if is_gymnasium and message else f"{type(error).__name__}: {message}".removesuffix(": ")


def env_error(name: str, what: str, error: Exception) -> TfsmError:
    """Return the error for an environment that raised one."""
    return TfsmError(f"the environment {name!r} failed in {what}(): {describe_env_error(error)}")


@contextmanager
def quiet_gymnasium() -> Iterator[None]:
    """Suppress Gymnasium's warnings about how environments are used."""
    logger = gymnasium().logger
    before, logger.min_level = logger.min_level, logger.ERROR
    try:
        yield
    finally:
        logger.min_level = before


@contextmanager
def _record_warnings(notify: Callable[[str], None]) -> Iterator[None]:
    """Report warnings about versions, and what a simulator warns about on the file descriptor of stderr, once each."""
    with warnings.catch_warnings(record=True) as caught, tempfile.TemporaryFile() as file:
        warnings.simplefilter("always")
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            file.seek(0)
            printed = file.read().decode(errors="replace").splitlines()
    texts = [text for text in (_clean(str(warning.message)) for warning in caught) if "version" in text]
    texts += [_clean(line) for line in printed if line.lstrip().lower().startswith("warn")]
    for text in dict.fromkeys(texts):
        notify(text)


@contextmanager
def _record_mujoco(config: EnvConfig, notify: Callable[[str], None]) -> Iterator[None]:
    """Report what MuJoCo warns about when it compiles a model, which it would also write to a file."""
    spec = config.spec or gymnasium().registry.get(config.name)
    try:
        mujoco = importlib.import_module("mujoco") if "mujoco" in str(getattr(spec, "entry_point", "")) else None
        before = mujoco.get_mju_user_warning() if mujoco is not None else None
    except (ImportError, AttributeError):  # missing, which is reported later, or older
        mujoco = None
    if mujoco is None:
        yield
        return
    texts: list[str] = []
    mujoco.set_mju_user_warning(texts.append)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
        for text in dict.fromkeys(map(_clean, texts)):
            notify(text)


def _clean(text: str) -> str:
    return re.sub(r"^WARN(ING)?:\s*", "", " ".join(_COLOUR.sub("", text).split()))
