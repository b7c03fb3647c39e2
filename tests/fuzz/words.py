"""Words of a command line: what is usual, what is wrong, and what nobody would think of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Final

from hypothesis import strategies as st

from tfsm.plugins import load_plugins
from tfsm.settings.schema import ENGINE_KEYS, RUN_KEYS

HUGE: Final = ("1000000000000", str(2**31), str(2**63 - 1), str(2**63), "9" * 30)
"""Numbers that may make a command go on for ever, or ask for all memory."""
NUMBERS: Final = (
    *("0", "1", "2", "3", "-1", "2.5", "1e-3", "nan", "inf", "-inf", "1e400", "1e-400", "-0.0", "1_0", " 1", "0x10"),
    *("٣", "", "none", "true", "one", "9" * 5000, *HUGE),
)
STRANGE: Final = (
    *("", " ", "-", "--", "---", "=", ",", ",,", ":", "a:b", "*", "[", "%s", "{}", "\\", "'", '"', "\n", "\t", "@"),
    *("é", "日本", "\u202e", "\x1b[31m", "\x07", "\x7f", "\udcff", "🧬", "~", "~nobody", "x" * 300, "x" * 70_000),
)  # fmt: skip
TEXT: Final = st.text(st.characters(exclude_characters="\0/~", exclude_categories=["Cs"]), max_size=8).map(
    lambda text: text.replace("..", "__")
)
"""Any text that a command line can have, and no path that leads elsewhere."""
STRANGE_WORDS: Final = st.sampled_from(STRANGE) | TEXT
MUTATIONS: Final = ("control", "sm-r", "sm-g-sum", "sm-g-abs")
DOMAINS: Final = ("simple-easy", "simple-medium")


def option_keys() -> list[str]:
    """Return all that `--set` may name, and how else it may be spelt."""
    plugins = load_plugins()
    keys = [*RUN_KEYS, *(f"run.{key}" for key in RUN_KEYS), *(f"engine.{key}" for key in ENGINE_KEYS)]
    kinds = {"mutation": plugins.mutations, "domain": plugins.domains, "selection": plugins.selections}
    for kind, parts in kinds.items():
        for entry in parts.values():
            own = [field.name for field in fields(entry.options)] if entry.options is not None else []
            keys += [*own, *(f"{kind}.{name}" for name in own)]
    return sorted({*keys, "tensorboard.histograms", "mutation.", ".size", "engine", "nothing", "run.run.seed"})


def listed(names: Sequence[str]) -> st.SearchStrategy[str]:
    """Return names with commas between them."""
    return st.lists(st.sampled_from(names), min_size=1, max_size=2).map(",".join)


NUMBER: Final = st.sampled_from(NUMBERS)
SELECTIONS: Final = ("tournament", "hill-climber", "novelty", "map-elites", "random", "truncation", "lexicase")
SETTING: Final = st.builds(
    "{}={}".format,
    st.sampled_from(option_keys()),
    NUMBER | st.sampled_from([*MUTATIONS, "graph", "[1,2]", "~nobody"]),
)
