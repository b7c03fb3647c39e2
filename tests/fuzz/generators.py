"""Strategies for command lines and files: valid, invalid and unusual ones."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from datetime import date, time
from pathlib import Path
from typing import Any, Final

import numpy as np
import typer
from hypothesis import strategies as st

from tfsm.cli.main import app
from tfsm.plugins import load_plugins
from tfsm.settings.schema import ENGINE_KEYS, RUN_KEYS

HUGE: Final = ("1000000000000", str(2**31), str(2**63 - 1), str(2**63), "9" * 30)
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
STRANGE_WORDS: Final = st.sampled_from(STRANGE) | TEXT
MUTATIONS: Final = ("control", "sm-r", "sm-g-sum", "sm-g-abs")
DOMAINS: Final = ("simple-easy", "simple-medium")


def list_option_keys() -> list[str]:
    """Return all keys of `--set`, in all spellings, and some invalid ones."""
    plugins = load_plugins()
    keys = [*RUN_KEYS, *(f"run.{key}" for key in RUN_KEYS), *(f"engine.{key}" for key in ENGINE_KEYS)]
    kinds = {"mutation": plugins.mutations, "domain": plugins.domains, "selection": plugins.selections}
    for kind, parts in kinds.items():
        for entry in parts.values():
            names = [field.name for field in fields(entry.options)] if entry.options is not None else []
            keys += [*names, *(f"{kind}.{name}" for name in names)]
    return sorted({*keys, "tensorboard.histograms", "mutation.", ".size", "engine", "nothing", "run.run.seed"})


def comma_separated(names: Sequence[str]) -> st.SearchStrategy[str]:
    """Return a strategy for comma-separated names."""
    return st.lists(st.sampled_from(names), min_size=1, max_size=2).map(",".join)


NUMBER: Final = st.sampled_from(NUMBERS)
SELECTIONS: Final = ("tournament", "hill-climber", "novelty", "map-elites", "random", "truncation", "lexicase")
SETTING: Final = st.builds(
    "{}={}".format,
    st.sampled_from(list_option_keys()),
    NUMBER | st.sampled_from([*MUTATIONS, "graph", "[1,2]", "~nobody"]),
)


ODD: Final = (None, True, False, 0, 1, -1, 0.5, 1e308, float("inf"), float("nan"), 2**31, 2**64, 10**40, -(10**400))
SNIPPETS: Final = st.sampled_from(
    [
        b"9" * 5000,
        b"[" * 3000,
        b'{"a":' * 3000,
        b"a." * 3000,
        b"\\u0000",
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b'"""',
        b"1e400",
        b"NaN",
    ]
)
VALUES: Final = st.recursive(
    st.sampled_from([*ODD, "\x1b[2J", "\x00", "../up", "/etc", "~nobody", "\ud800", "a" * 400]) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@st.composite
def damage(draw: st.DrawFn, whole: bytes) -> bytes:
    """Flip bits, overwrite, remove, duplicate or truncate; or draw unrelated bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=60))
    content = bytearray(whole)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 4, 16]))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        length = draw(st.sampled_from([1, 2, 4, 8, 40]))
        match draw(st.sampled_from(["flip", "flip", "write", "number", "remove", "double", "insert", "cut"])):
            case "flip":
                content[at : at + 1] = bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in content[at : at + 1])
            case "write":
                content[at : at + length] = draw(st.binary(min_size=length, max_size=length))
            case "number":
                number = draw(st.sampled_from([0, 1, 2**15, 2**31 - 1, 2**32 - 1, len(whole)]))
                content[at : at + 4] = number.to_bytes(4, "little")
            case "remove":
                del content[at : at + length]
            case "double":
                content[at:at] = content[at : at + length]
            case "insert":
                content[at:at] = draw(SNIPPETS)
            case "cut":
                del content[at:]
    return bytes(content)


@st.composite
def change_value(draw: st.DrawFn, value: Any, others: st.SearchStrategy[Any] = VALUES) -> Any:
    """Change a JSON or TOML value in some places: other values, added or removed keys, duplicated items."""
    value = deepcopy(value)
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        places = list(list_places(value))
        if not places:
            return deepcopy(draw(others))
        container, key = places[draw(st.integers(0, len(places) - 1))]
        match draw(st.sampled_from(["other", "other", "remove", "copy", "swap"])):
            case "other":
                container[key] = deepcopy(draw(others))
            case "remove":
                del container[key]
            case "copy" if isinstance(container, dict):
                container[draw(st.text(max_size=4))] = deepcopy(container[key])
            case "copy":
                container.append(deepcopy(container[key]))
            case _:
                other, place = places[draw(st.integers(0, len(places) - 1))]
                container[key], other[place] = deepcopy((other[place], container[key]))
    return value


def list_places(value: Any) -> Sequence[tuple[Any, Any]]:
    """Return every place in a value, as its container and the key or index."""
    children: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        container = pending.pop()
        items = (
            container.items()
            if isinstance(container, dict)
            else enumerate(container)
            if isinstance(container, list)
            else ()
        )
        for key, item in items:
            children.append((container, key))
            pending.append(item)
    return children


DTYPES: Final = ("<f4", ">f8", "f2", "g", "?", "i1", "<u8", "c8", "S3", "U2", "V4", "M8[s]", "f4,i4", "(2,)f4", "O")
SHAPES: Final = st.lists(st.integers(0, 6), max_size=4).map(tuple) | st.just((5, 3))
CLAIMS: Final = st.sampled_from(
    [
        *(
            "(5, 3)",
            "(1000000000, 3)",
            "(10000000000000000000000,)",
            "(-1, 3)",
            "(True, 3)",
            "()",
            "(0, 3)",
            "5",
            "None",
        ),
        *("(2**40,)", "(4294967296, 4294967296)", f"({'9' * 400},)", "[5, 3]", "(5.0, 3)", "(" * 90 + ")" * 90),
    ]
)
DESCRIPTIONS: Final = st.sampled_from(["'<f4'", "'|O'", "'<f99'", "[('a', '<f4')]", "'f4,f4'", "3", "'<U999999999'"])


class LeaveMark:
    """Creates a folder when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("executed",)


def save_array(array: np.ndarray) -> bytes:
    """Return an array as `np.save` writes it."""
    with io.BytesIO() as stream:
        np.save(stream, array, allow_pickle=True)
        return stream.getvalue()


def make_archive(members: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a ZIP archive with these members."""
    with io.BytesIO() as stream:
        with zipfile.ZipFile(stream, "w", compression) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return stream.getvalue()


@st.composite
def honest_arrays(draw: st.DrawFn) -> bytes:
    """Draw arrays of any type and shape, including Python objects."""
    kind, shape = np.dtype(draw(st.sampled_from(DTYPES))), draw(SHAPES)
    if kind.hasobject:
        objects = np.empty(shape, object)
        objects[...] = LeaveMark()
        return save_array(objects)
    return save_array(np.zeros(shape, kind))


@st.composite
def lying_arrays(draw: st.DrawFn) -> bytes:
    """Draw headers that claim any type and shape, followed by little data."""
    header = f"{{'descr': {draw(DESCRIPTIONS)}, 'fortran_order': {draw(st.booleans())}, 'shape': {draw(CLAIMS)}, }}"
    version, size = draw(st.sampled_from([(b"\x01\x00", 2), (b"\x02\x00", 4), (b"\x03\x00", 4), (b"\x09\x00", 2)]))
    length = draw(st.sampled_from([len(header), len(header), 0, 2**15, 2 ** (8 * size) - 1]))
    return b"\x93NUMPY" + version + length.to_bytes(size, "little") + header.encode() + bytes(60)


ARRAYS: Final = st.one_of(
    honest_arrays(), lying_arrays(), damage(save_array(np.ones((5, 3), "f4"))), st.binary(max_size=40)
)
ARCHIVES: Final = st.one_of(
    st.dictionaries(st.sampled_from(["arr_0", "arr_0.npy", "arr_1.npy", "a.npy", "../x.npy", "d/"]), ARRAYS, max_size=3)
    .map(make_archive),
    damage(make_archive({"arr_0.npy": save_array(np.ones((5, 3), "f4"))}, zipfile.ZIP_STORED)),
    damage(make_archive({"arr_0.npy": save_array(np.ones((5, 3), "f4"))})),
    ARRAYS,
)  # fmt: skip


CONFIG: Final = "config.json"
WEIGHTS: Final = "model.weights.h5"
HOSTILE: Final = st.sampled_from(
    [
        {"module": "os", "class_name": "function", "config": "mkdir", "registered_name": "mkdir"},
        {"module": "os", "class_name": "mkdir", "config": {"path": "executed"}, "registered_name": None},
        {"module": "builtins", "class_name": "function", "config": "exec", "registered_name": "function"},
        {"class_name": "__lambda__", "config": {"value": "4wEAAAAA"}},
        {"module": "keras.layers", "class_name": "Lambda", "config": {"function": "lambda x: x"}},
        {"module": "keras.layers", "class_name": "TFSMLayer", "config": {"filepath": "folder"}},
        {"module": "keras.utils", "class_name": "get_file", "config": {"fname": "executed"}},
        {"class_name": "__typespec__", "module": "os", "config": ["mkdir", "executed"]},
        {"class_name": "__tensor__", "config": {"value": [1.0], "dtype": "float32"}},
        {"class_name": "__numpy__", "config": {"value": [[1], [2, 3]], "dtype": "O"}},
        {"module": "keras.layers", "class_name": "Dense", "config": {"units": 10**12}},
        {"module": "keras.layers", "class_name": "RNN", "config": {"cell": None}},
        {"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": "m.keras"}},
    ]
)
WORDS: Final = st.sampled_from(["Dense", "LSTM", "Conv2D", "Flatten", "Embedding", "Sequential", "Functional", "relu"])
OTHERS: Final = VALUES | HOSTILE | WORDS | st.sampled_from([[None, 3], [None, None], [3], "float16", "int8", "string"])
MORE: Final = st.sampled_from(
    [
        {"../executed": b"out"},
        {"executed": b"", "assets/": b"", "assets/a.txt": b"a"},
        {"model.pkl": b"cos\nmkdir\n(S'executed'\ntR."},
        {"saved_model.pb": b"\x08\x01"},
        {"more.h5": b"\x89HDF\r\n\x1a\n"},
        {"a.npy": save_array(LeaveMark())},  # type: ignore[arg-type]
        {"a.npz": make_archive({"a.npy": save_array(LeaveMark())})},  # type: ignore[arg-type]
        {"\x1b[2J": b"", "x" * 5000: b"x"},
        {"zeros": bytes(2**22)},
        {"metadata.json": b"[", "variables.h5": b""},
    ]
)


def read_members(file: Path) -> dict[str, bytes]:
    """Return the members of an archive."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@st.composite
def damage_model(draw: st.DrawFn, whole: Mapping[str, bytes]) -> bytes:
    """Draw the file of a model with another configuration, other weights, or other members; or a broken archive."""
    parts = dict(whole)
    match draw(st.sampled_from(["archive", "config", "config", "bytes", "weights", "weights", "members"])):
        case "archive":
            return draw(damage(make_archive(parts, draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])))))
        case "config":
            parts[CONFIG] = json.dumps(draw(change_value(json.loads(parts[CONFIG]), OTHERS))).encode()
        case "bytes":
            parts[CONFIG] = draw(damage(parts[CONFIG]))
        case "weights":
            parts[WEIGHTS] = draw(damage(parts[WEIGHTS]))
        case "members":
            parts |= draw(MORE)
            for name in draw(st.lists(st.sampled_from(list(parts)), max_size=2)):
                parts.pop(name, None)
    return make_archive(parts, zipfile.ZIP_STORED)


ENDLESS: Final = st.just(5000).map(lambda digits: 16**digits)


def to_toml(table: Mapping[str, Any]) -> str:
    """Format a table as TOML."""
    return "".join(
        f"{_format_text(key)} = {_format_value(value)}\n" for key, value in table.items() if value is not None
    )


def _format_value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case date() | time():  # a datetime is a date
            return value.isoformat()
        case Mapping():
            pairs = (f"{_format_text(key)} = {_format_value(item)}" for key, item in value.items() if item is not None)
            return "{" + ", ".join(pairs) + "}"
        case list():
            return "[" + ", ".join(_format_value(item) for item in value if item is not None) + "]"
        case str():
            return _format_text(value)
    # Python refuses to write thousands of decimal digits.
    return hex(value) if isinstance(value, int) and value > 10**30 else repr(value)


def _format_text(text: object) -> str:
    # Replace lone surrogates, which are not characters, and escape DEL.
    shown = json.dumps(str(text).encode("utf-8", "replace").decode(), ensure_ascii=False)
    return shown.replace("\x7f", "\\u007f")


SHORT: Final = ["--evaluations", "4", "--population", "1", "--runs", "1", "--set", "engine.compile=graph"]
SMALL: Final = {
    "run": SHORT,
    "compare": [*SHORT, "--mutation", "control"],
    "sweep": [*SHORT, "--mutation", "control", "--grid", "0.1"],
    "robustness": ["--perturbations", "2", "--histogram", "2", "--mutation", "control"],
}
LAST: Final = {"replay": ["--save", "film.png"]}
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
    "mutation": st.sampled_from(MUTATIONS) | comma_separated(MUTATIONS),
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


def list_commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Yield every command and its parameters."""
    for name, children in group.commands.items():
        if hasattr(children, "commands"):
            yield from list_commands(children, (*before, name))
        else:
            yield (*before, name), children.params


COMMANDS: Final = dict(list_commands(typer.main.get_command(app)))


@st.composite
def command_lines(draw: st.DrawFn, command: tuple[str, ...]) -> list[str]:
    """Draw a command line that is mostly valid."""
    words = [*command, *SMALL.get(command[0], [])]
    for parameter in COMMANDS[command]:
        number = draw(st.integers(0, 9))
        # Rarely omit required parameters and rarely give the others: otherwise almost every line would be invalid.
        times = (1 if number else 0) if parameter.required else (2 if number == 9 else number >= 7)
        for _ in range(times):
            words += draw(_draw_parameter(parameter))
    if draw(st.integers(0, 9)) == 0:
        words.insert(draw(st.integers(len(command), len(words))), draw(STRANGE_WORDS))
    return [*words, *LAST.get(command[0], [])]


@st.composite
def _draw_parameter(draw: st.DrawFn, parameter: Any) -> list[str]:
    if getattr(parameter, "is_flag", False):
        return [draw(st.sampled_from([*parameter.opts, *parameter.secondary_opts]))]
    usual = GOOD.get(parameter.name.rstrip("_"), NUMBER)
    value = draw(usual) if draw(st.integers(0, 4)) else draw(STRANGE_WORDS)
    return [value] if parameter.param_type_name == "argument" else [draw(st.sampled_from(parameter.opts)), value]
