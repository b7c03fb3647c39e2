"""Command lines for all commands: taken from the command line's own description, so that none is forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import typer
from hypothesis import strategies as st

from tests.fuzz.words import DOMAINS, MUTATIONS, NUMBER, SELECTIONS, SETTING, STRANGE_WORDS, listed
from tfsm.cli.main import app

SHORT: Final = ["--evaluations", "4", "--population", "1", "--runs", "1", "--set", "engine.compile=graph"]
SMALL: Final = {
    "run": SHORT,
    "compare": [*SHORT, "--mutation", "control"],
    "sweep": [*SHORT, "--mutation", "control", "--grid", "0.1"],
    "robustness": ["--perturbations", "2", "--histogram", "2", "--mutation", "control"],
}
"""What comes before all else, where whatever comes later counts: commands that are right end soon."""
LAST: Final = {"replay": ["--save", "film.png"]}
"""What comes last: a window would wait for somebody to close it."""
FILES: Final = ("notes.txt", "m.keras", "x.npy", "x.npz", "my.toml", "old.h5", "loop", "dangling")
FOLDERS: Final = ("folder", ".", "done", "study")
NEW: Final = ("missing", "missing/deep", "notes.txt/below", "folder/new", "new", "y" * 300, f"{'z' * 300}/a.keras")
PLACES: Final = st.sampled_from([*FILES, *FOLDERS, *NEW, "", "done/run.json"])
GOOD: Final[Mapping[str, st.SearchStrategy[str]]] = {
    "at": NUMBER,
    "band": st.sampled_from(["wilson", "kaplan-meier"]),
    "baseline": st.sampled_from(MUTATIONS),
    "config": st.sampled_from(["my.toml"]) | PLACES,
    "directories": st.sampled_from(["done", "study", "."]) | PLACES,
    "directory": st.sampled_from(["done", "study", "."]) | PLACES,
    "disable_plugin": st.sampled_from(["tfsm-gym", "tfsm-ple", "tfsm-mutations", "tfsm-toy"]),
    "domain": st.sampled_from(DOMAINS),
    "experience": st.sampled_from(["x.npy", "x.npz"]) | PLACES,
    "figure": st.sampled_from(["simple", "parity", "hard-maze"]),
    "figures": st.sampled_from(["figures", "folder"]) | PLACES,
    "grid": st.lists(NUMBER, max_size=2).map(",".join),
    "html": st.sampled_from(["page.html", "folder/page.html", "missing/page.html", "folder.html"]) | PLACES,
    "kind": st.sampled_from(["mutation", "domain", "selection", "observer", "run", "sweep"]),
    "layers": st.sampled_from(["hidden", "*", "@head", "out=0.5", "out=nan", "hidden,hidden", "o*=-1", "=", "@"]),
    "model": st.sampled_from(["m.keras", "math:pi", "math:sqrt", "os:getcwd", "os.path:join.x", "m:n"]) | PLACES,
    "mutation": st.sampled_from(MUTATIONS) | listed(MUTATIONS),
    "name": st.sampled_from([*MUTATIONS, "tournament", "tensorboard", "parity", "my-part", "plugin:x", "package:tfsm"]),
    "observer": st.sampled_from(["tensorboard"]),
    "out": st.sampled_from(["new", "child.keras", "folder/new"]) | PLACES,
    "plot": st.sampled_from(["p.png", "p.svg", "missing/p.png", "folder.png", "p.gif"]) | PLACES,
    "save": st.sampled_from(["f.png", "f.gif", "missing/f.png"]),
    "scale": NUMBER,
    "selection": st.sampled_from(SELECTIONS),
    "set": SETTING,
    "status": st.sampled_from(["finished", "damaged"]),
    "top": PLACES,
}  # fmt: skip
"""What an argument usually is, by its name; any other is a number."""


def commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Yield every command and its parameters."""
    for name, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from commands(found, (*before, name))
        else:
            yield (*before, name), found.params


COMMANDS: Final = dict(commands(typer.main.get_command(app)))


@st.composite
def command_lines(draw: st.DrawFn, command: tuple[str, ...]) -> list[str]:
    """Draw a command line: mostly right, somewhere wrong."""
    words = [*command, *SMALL.get(command[0], [])]
    for parameter in COMMANDS[command]:
        wanted = draw(st.integers(0, 9))
        # Required ones are seldom left out, and the others seldom given: else every line would be wrong at once.
        times = (1 if wanted else 0) if parameter.required else (2 if wanted == 9 else wanted >= 7)
        for _ in range(times):
            words += draw(_given(parameter))
    if draw(st.integers(0, 9)) == 0:
        words.insert(draw(st.integers(len(command), len(words))), draw(STRANGE_WORDS))
    return [*words, *LAST.get(command[0], [])]


@st.composite
def _given(draw: st.DrawFn, parameter: Any) -> list[str]:
    if getattr(parameter, "is_flag", False):
        return [draw(st.sampled_from([*parameter.opts, *parameter.secondary_opts]))]
    usual = GOOD.get(parameter.name.rstrip("_"), NUMBER)
    value = draw(usual) if draw(st.integers(0, 4)) else draw(STRANGE_WORDS)
    return [value] if parameter.param_type_name == "argument" else [draw(st.sampled_from(parameter.opts)), value]
