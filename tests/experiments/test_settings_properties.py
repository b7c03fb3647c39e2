from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.experiments.settings_case import settle
from tfsm.errors import TfsmError
from tfsm.settings import Resolved

TABLES = [
    "run",
    "domains",
    "mutations",
    "selections",
    "observers",
    "engine",
    "parity",
    "simple-easy",
    "sm-r",
    "control",
]
SETTINGS = [
    "intensity",
    "runs",
    "seed",
    "evaluations",
    "population",
    "init",
    "init_scale",
    "log_every",
    "selection",
    "observers",
]
OPTIONS = ["options", "mutation", "selection_options", "bits", "experiences", "floor", "size", "memory", "populaton"]
KEYS = st.sampled_from([*TABLES, *SETTINGS, *OPTIONS]) | st.text(max_size=6)
LEAVES = st.one_of(
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.floats(),
    st.dates(),
    st.datetimes(),
    st.sampled_from(["none", "xavier-normal", "tournament", "hill-climber", "auto", "1", "nan"]),
    st.text(max_size=6),
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))
PLAUSIBLE = st.fixed_dictionaries(
    {},
    optional={
        "runs": st.integers(0, 3),
        "seed": st.integers(0, 2**63),
        "evaluations": st.integers(1, 1_000),
        "population": st.integers(1, 300),
        "selection": st.sampled_from(["tournament", "hill-climber"]),
        "intensity": st.floats(0, 1)
        | st.dictionaries(st.sampled_from(["sm-r", "control", "x"]), st.floats(0), max_size=2),
        "init_scale": st.floats(0, 2) | st.just("none"),
    },
)
RUN_TABLE = PLAUSIBLE | st.dictionaries(KEYS, VALUES, max_size=4)
NAMED = st.dictionaries(KEYS, RUN_TABLE | VALUES, max_size=3)
FILES = st.one_of(
    st.fixed_dictionaries({"run": PLAUSIBLE, "domains": st.fixed_dictionaries({"parity": PLAUSIBLE})}),
    st.dictionaries(KEYS, VALUES, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "run": RUN_TABLE,
            "domains": NAMED,
            "mutations": NAMED,
            "selections": NAMED,
            "observers": NAMED,
            "engine": RUN_TABLE,
        },
    ),
)
SETTING = st.sampled_from(
    ["bits", "run.seed", "mutation.experiences", "selection", "size", "population", "engine.width"]
)
SETS = st.lists(
    st.builds("{}={}".format, SETTING, st.text(max_size=4) | st.integers(-2, 300)) | st.text(max_size=8), max_size=3
)


def to_toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return repr(value)  # of infinities and NaN, too
        case date() | datetime():
            return value.isoformat()
        case dict():
            return "{" + ", ".join(f"{quoted(key)} = {to_toml(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(to_toml, value)) + "]"
        case str():
            return quoted(value)
        case _:
            return str(value)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def outcome(content: bytes, sets: Sequence[str] = ()) -> Resolved | str:
    """Return the settings, or what the user is told; anything else is raised."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tfsm.toml"
        path.write_bytes(content)
        try:
            return settle(Path(folder), sets=sets)
        except TfsmError as error:
            return str(error).replace(str(path), "FILE")


@settings(max_examples=75, deadline=None)
@given(file=FILES, sets=SETS)
def test_any_file_and_command_line_resolve_or_are_told_what_is_wrong(file: dict[str, object], sets: list[str]) -> None:
    toml = "".join(f"{quoted(key)} = {to_toml(value)}\n" for key, value in file.items())
    found = outcome(toml.encode(), sets)
    if isinstance(found, str):
        assert "not valid TOML" not in found, "the test wrote a bad file"
        return
    plain = found.settings.as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["population"] <= plain["evaluations"]
    assert math.isfinite(plain["intensity"])


@settings(max_examples=75, deadline=None)
@given(content=st.binary(max_size=60))
def test_any_bytes_resolve_or_are_told_what_is_wrong(content: bytes) -> None:
    found = outcome(content)
    assert isinstance(found, Resolved) or found.startswith("FILE: ")
