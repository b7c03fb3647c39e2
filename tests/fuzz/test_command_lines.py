"""Whatever a command line says: a result or a message, and never a traceback or a hang."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.command_lines import COMMANDS, command_lines
from tests.fuzz.places import copy_of, furnish
from tests.fuzz.profile import fuzzed
from tests.fuzz.running import command, empty_folder
from tests.fuzz.words import HUGE

ENDLESS = ("reproduce", "plugins check")
"""What may take minutes though every word is right; so may anything with a huge number in it."""
SLOW = ("run", "compare", "sweep", "robustness", *ENDLESS)


@pytest.fixture(scope="module")
def furnished() -> Iterator[Path]:
    with empty_folder() as folder:
        yield furnish(folder)


def tried(furnished: Path, words: list[str]) -> None:
    name = " ".join(words[:2]) if words[0] in ("plugins", "runs", "config") else words[0]
    patient = name not in ENDLESS and not any(number in word for word in words for number in HUGE)
    with empty_folder():
        copy_of(furnished)
        kept = {path: path.read_bytes() for path in Path().glob("folder/*")}
        command(*words, interrupt_after=None if patient else 3.0)
        assert all(path.read_bytes() == content for path, content in kept.items()), "a user's file was changed"


@pytest.mark.parametrize("name", [name for name in COMMANDS if " ".join(name) not in SLOW], ids=" ".join)
@fuzzed(3)
@given(data=st.data())
def test_quick_commands(furnished: Path, name: tuple[str, ...], data: st.DataObject) -> None:
    tried(furnished, data.draw(command_lines(name)))


@pytest.mark.parametrize("name", [name for name in COMMANDS if " ".join(name) in SLOW], ids=" ".join)
@fuzzed(2, share=0.2)
@given(data=st.data())
def test_commands_that_evolve(furnished: Path, name: tuple[str, ...], data: st.DataObject) -> None:
    tried(furnished, data.draw(command_lines(name)))
