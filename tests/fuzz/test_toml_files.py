"""Whatever a `tfsm.toml` says: settings in force, or a message that names the file."""

from __future__ import annotations

import tomllib
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.damage import VALUES, changed, damaged
from tests.fuzz.profile import fuzzed
from tests.fuzz.running import command, empty_folder
from tests.fuzz.toml import ENDLESS, to_toml
from tests.fuzz.words import DOMAINS, MUTATIONS, SELECTIONS
from tfsm.settings.schema import ENGINE_KEYS, RUN_KEYS
from tfsm.settings.sources import built_in_path

SHIPPED: Final = built_in_path().read_bytes()
NAMES: Final = (*DOMAINS, *MUTATIONS, *SELECTIONS, "tensorboard", "nobody", "")
KEYS: Final = st.sampled_from([*RUN_KEYS, *ENGINE_KEYS, *NAMES, "options", "mutation", "selection_options", "maze"])
OTHERS: Final = st.one_of(
    VALUES,
    ENDLESS,
    st.sampled_from([date(2026, 1, 2), datetime(2026, 1, 2, 3), time(4, 5), *NAMES, "none", "xavier-normal", "self"]),
    st.integers(-2, 20),
    st.floats(),
)
RUN: Final = st.dictionaries(KEYS | st.text(max_size=3), OTHERS, max_size=4)
TABLES: Final = st.fixed_dictionaries(
    {},
    optional={
        "run": RUN,
        "engine": RUN,
        "domains": st.dictionaries(st.sampled_from(NAMES), RUN | OTHERS, max_size=2),
        "mutations": st.dictionaries(st.sampled_from(NAMES), RUN | OTHERS, max_size=2),
        "selections": st.dictionaries(st.sampled_from(NAMES), RUN | OTHERS, max_size=2),
        "observers": st.dictionaries(st.sampled_from(NAMES), RUN | OTHERS, max_size=2),
        "": OTHERS,
    },
)
FILES: Final = st.one_of(
    damaged(SHIPPED),
    TABLES.map(lambda tables: to_toml(tables).encode()),
    changed(tomllib.loads(SHIPPED.decode()), OTHERS).map(lambda tables: to_toml(_table(tables)).encode()),
    st.lists(st.sampled_from(SHIPPED.splitlines(keepends=True)), max_size=30).map(b"".join),
)


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"run": value}


def tried(content: bytes, nearest: bool, *words: str) -> None:
    with empty_folder():
        file = Path("tfsm.toml" if nearest else "other.toml")
        file.write_bytes(content)
        done = command(*words, *([] if nearest else ["--config", str(file)]), interrupt_after=5.0)
        if done.code:
            assert done.stderr.startswith(("error: ", "warning: ")) or done.code == 130, done.stderr


@pytest.mark.parametrize("words", [("config", "show"), ("config", "show", "simple-easy")], ids=" ".join)
@fuzzed(10)
@given(content=FILES, nearest=st.booleans())
def test_settings_are_shown_or_refused(words: tuple[str, ...], content: bytes, nearest: bool) -> None:
    tried(content, nearest, *words)


@fuzzed(3, share=0.2)
@given(content=FILES, nearest=st.booleans())
def test_a_run_takes_place_or_is_refused(content: bytes, nearest: bool) -> None:
    tried(content, nearest, "run", "simple-easy", "--mutation", "control", "--evaluations", "4", "--population", "1")
