"""Golden runs: digests of what the command line writes, to tell whether a change of the code changes any result.

Everything here goes through the `tfsm` command and the files it leaves on disk. No module of tfsm is imported, so that
the script outlives any rearrangement of the package.

    python golden.py record FILE.json [--tfsm EXECUTABLE] [--only PATTERN]
    python golden.py check FILE.json [--tfsm EXECUTABLE] [--only PATTERN]

`record` runs every case and writes the SHA-256 digest of each artefact; `check` runs the cases again, compares the
digests exactly, and exits with 1 if anything differs. Floating-point results depend on the processor and on the
versions of TensorFlow and NumPy: compare only what was recorded on the same machine, in the same environment.

    python golden.py record-runs FILE.json FOLDER [--tfsm EXECUTABLE]
    python golden.py check-runs FILE.json FOLDER [--tfsm EXECUTABLE]

These do the same for stored run directories: what `tfsm report` and `tfsm runs show` print for each directory in
FOLDER, and what a copy of it holds after it was resumed with a larger budget.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np

Digests = dict[str, str]

TIMEOUT: Final = 600.0
"""Seconds after which a command counts as failed."""

OPERATORS: Final = (
    "control",
    "sm-r",
    "sm-g-sum",
    "sm-g-abs",
    "sm-g-so",
    "sm-g-rms",
    "safe-crossover",
)

# Keys of JSON files that say when, where and by what something was run, but not what came of it. `sources` names
# configuration files, `inputs` and `objects` hold digests of files that carry the time of their creation, `resumed` the
# times at which a run was resumed. metrics.jsonl holds neither times nor rates.
UNSTABLE_KEYS: Final = frozenset(
    {"command", "started", "ended", "resumed", "process", "host", "versions"}
    | {"sources", "inputs", "objects", "directory"}
)

MAZE: Final = "#####\n#S+E#\n#####\n"
"""The smallest maze for the domains that are seen as pixels; three moves are enough for an episode."""

INPUTS: Final = frozenset(
    {"model.keras", "pixels.keras", "experience.npy", "pixels.npy", "player.keras", "unused.npy", "maze.txt"}
)

# Builds the models that `tfsm mutate` and `--model` are given. Weights come from NumPy's legacy generator, whose
# stream is frozen, so that the models do not depend on how Keras draws initial weights.
BUILD_MODELS: Final = """
import keras
import numpy as np

random = np.random.RandomState(5)


def save(layers, shape, name, experiences):
    model = keras.Sequential([keras.Input(shape), *layers])
    model.set_weights([random.normal(0.0, 0.4, weight.shape).astype("float32") for weight in model.weights])
    model.save(name + ".keras")
    np.save(experiences, random.uniform(-1.0, 1.0, (6, *shape)).astype("float32"))


dense, conv = keras.layers.Dense, keras.layers.Conv2D
save(
    [dense(5, activation="tanh", name="hidden"), dense(4, activation="selu", name="inner"), dense(3, name="head")],
    (4,),
    "model",
    "experience.npy",
)
save(
    [conv(2, 3, activation="relu", name="seen"), keras.layers.Flatten(name="flat"), dense(2, name="head")],
    (6, 6, 1),
    "pixels",
    "pixels.npy",
)
save([dense(5, activation="tanh", name="hidden"), dense(2, name="head")], (4,), "player", "unused.npy")
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One experiment: commands that are run one after another in a new directory.

    Attributes:
        name: unique; `--only` is matched against it.
        commands: arguments of `tfsm`.
        printed: whether standard output, which must then be JSON, is an artefact too.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    printed: bool = False


class CommandFailed(Exception):
    """A command ended with an error; the message is the last line it wrote to standard error."""


# --- The cases


def _run(domain: str, mutation: str, *words: str, sets: str = "", **options: object) -> tuple[str, ...]:
    """Return the arguments of a tiny `tfsm run`; every keyword becomes an option, `sets` is split into `--set`s."""
    chosen = {
        "runs": 2,
        "seed": 11,
        "population": 10,
        "evaluations": 60,
        "checkpoint_every": 30,
        "out": "out",
        **options,
    }
    given = [word for name, value in chosen.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    pairs = [word for pair in sets.split() for word in ("--set", pair)]
    return ("run", domain, "--mutation", mutation, *given, *pairs, *words, "--quiet")


def _parity(mutation: str, *words: str, sets: str = "size=3", **options: object) -> tuple[str, ...]:
    return _run("parity", mutation, *words, sets=f"bits=3 units=5 log_every=10 {sets}", **options)


def _maze(mutation: str, *words: str, sets: str = "size=3", **options: object) -> tuple[str, ...]:
    return _run("hard-maze", mutation, *words, sets=f"log_every=10 remembered=10 {sets}", **options)


def _cases() -> Iterator[Case]:
    def case(name: str, *commands: tuple[str, ...], printed: bool = False) -> Case:
        return Case(name=name, commands=commands, printed=printed)

    # The slowest first, so that the two workers end at about the same time.
    few = {"population": 4, "evaluations": 12, "checkpoint_every": 6}
    pixels = "log_every=4 size=2 maze=maze.txt"
    for mutation in ("sm-g-so", "sm-g-sum"):
        sets = f"{pixels} steps=3 experiences=3"
        # One checkpoint, at the end: which others are written depends on the speed where a step is this slow.
        options = few | {"checkpoint_every": 12}
        yield case(f"domain/topdown-maze/{mutation}", _run("topdown-maze", mutation, sets=sets, **options))
    sets = f"{pixels} steps=3 network=convlstm scoring=progress"
    yield case("domain/topdown-maze/convlstm", _run("topdown-maze", "control", sets=sets, **few))
    sets = f"{pixels} frames=8 dual_bias=yes experiences=3"
    yield case("domain/first-person-maze", _run("first-person-maze", "sm-r", sets=sets, **few, runs=1))
    # Not compiled by XLA, which would take a minute for this many layers.
    sets = "log_every=4 size=2 experiences=5 remembered=5 compile=graph"
    yield case("domain/hard-maze-32", _run("hard-maze-32", "sm-g-sum", sets=sets, **few, runs=1))
    yield case("place/grain-runs-two-workers", _parity("sm-g-so", "--backend", "processes", "--workers", "2", runs=3))
    for mutation in ("control", "sm-g-abs"):
        words = ("--backend", "processes", "--workers", "1", "--grain", "children")
        yield case(f"place/grain-children-one-worker/{mutation}", _parity(mutation, *words, evaluations=40))

    for mutation in OPERATORS:
        yield case(f"operator/{mutation}", _parity(mutation))
    yield case("operator/sm-g-rms/probes", _parity("sm-g-rms", sets="size=3 probes=2 experiences=5 replacement=yes"))

    yield case("selection/hill-climber", _parity("control", sets="", selection="hill-climber", population=1))
    yield case("selection/truncation", _parity("control", sets="parents=4 elites=2", selection="truncation"))
    yield case("selection/random", _parity("control", sets="", selection="random"))
    yield case("selection/lexicase", _parity("control", selection="lexicase"))
    yield case("selection/novelty", _maze("control", sets="size=3 neighbors=4 archived=0.3", selection="novelty"))
    yield case("selection/map-elites/grid", _maze("control", sets="beginners=8", selection="map-elites"))
    yield case("selection/map-elites/cvt", _maze("control", sets="beginners=8 archive=cvt", selection="map-elites"))

    yield case("adapt/self", _parity("control", sets="size=3 adapt=self"))
    yield case("adapt/divergence", _parity("sm-g-sum", sets="size=3 adapt=divergence target_divergence=0.001"))
    yield case("stop/budget", _run("simple-easy", "sm-g-sum", sets="stop=budget", population=1, evaluations=120))

    yield case("domain/hard-maze/sm-g-sum", _maze("sm-g-sum", sets="size=3 experiences=5"))
    for name in ("easy", "medium", "washout"):
        yield case(f"domain/simple-{name}", _run(f"simple-{name}", "sm-g-abs", population=1, evaluations=120))
    yield case("domain/parity/one-output", _parity("sm-g-sum", sets="size=3 outputs=1 layers=1"))
    yield case(
        "domain/gym/CartPole",
        # The intensity was the default when the digests were recorded; today the default is a divergence.
        _run(
            "gym",
            "sm-g-sum",
            intensity=0.1,
            sets="env=CartPole-v1 units=4 episodes=2 steps=20 confirm=0 log_every=10 size=3",
        ),
    )

    yield case("layers/some", _parity("sm-g-sum", "--layers", "recurrent_1=0.1,@head"))
    yield case(
        "model/own",
        _run(
            "gym",
            "control",
            *("--model", "player.keras"),
            intensity=0.1,
            sets="env=CartPole-v1 episodes=2 steps=20 confirm=0",
        ),
    )
    yield case("engine/width", _parity("sm-g-sum", sets="size=3 width=1", runs=3))
    yield case("engine/graph", _parity("sm-g-sum", sets="size=3 compile=graph"))
    more = ("run", "--resume", "out", "--evaluations", "90", "--quiet")
    yield case("resume/parity", _parity("sm-g-sum", evaluations=40), more)
    yield case("study/compare", _compare())

    for mutation in OPERATORS:
        if mutation == "safe-crossover":
            continue  # Needs two parents, which only a population has.
        yield case(f"mutate/{mutation}", _mutate(mutation, "model", "experience"), printed=True)
    yield case("mutate/pixels", _mutate("sm-g-so", "pixels", "pixels"), printed=True)
    yield case(
        "mutate/layers",
        (*_mutate("sm-g-abs", "model", "experience"), "--layers", "hidden,head=0.1"),
        printed=True,
    )
    for mutation in ("sm-g-sum", "sm-g-abs", "sm-g-so", "sm-g-rms"):
        words = ("sensitivity", "model.keras", "--experience", "experience.npy", "--mutation", mutation)
        yield case(f"sensitivity/{mutation}", (*words, "--by-layer", "--json"), printed=True)


def _compare() -> tuple[str, ...]:
    _, domain, _, _, *words = _parity("", runs=3, evaluations=40)
    return ("compare", domain, "--mutation", "control,sm-r", *words)


def _mutate(mutation: str, model: str, experience: str) -> tuple[str, ...]:
    # The intensity was the default when the digests were recorded; today the default is a divergence.
    inputs = (f"{model}.keras", "--experience", f"{experience}.npy", "--mutation", mutation, "--intensity", "0.01")
    return ("mutate", *inputs, "--seed", "3", "--count", "2", "--out", "child.keras", "--json")


# --- Digests of what was written


def digests_of(directory: Path) -> Digests:
    """Return the digests of all artefacts below a directory, by descriptive names."""
    found: Digests = {}
    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        if file.name in INPUTS or file.name == ".lock":
            continue
        name = file.relative_to(directory).as_posix()
        for part, digest in _digests_of_file(file):
            found[f"{name}{part}"] = digest
    return found


def _digests_of_file(file: Path) -> Iterable[tuple[str, str]]:
    if file.suffix == ".keras":
        return _of_model(file)
    if file.suffix == ".checkpoint":
        return _of_checkpoint(file)
    if file.suffix == ".jsonl":
        return [("", _of_json([_stable(json.loads(line)) for line in file.read_text().splitlines()]))]
    if file.suffix == ".json":
        content = _stable(json.loads(file.read_text()))
        return [(f": {key}", _of_json(value)) for key, value in content.items()]
    if file.suffix == ".npz":
        with np.load(file) as arrays:
            return [(f": {name}", _of_arrays([arrays[name]])) for name in sorted(arrays)]
    return [("", hashlib.sha256(file.read_bytes()).hexdigest())]


def _of_model(file: Path) -> Iterator[tuple[str, str]]:
    """Digest the weights of a .keras archive.

    Its other members do not repeat: the metadata holds the time of saving, and the configuration has addresses in
    memory (`shared_object_id`) and names that Keras numbers by process (`input_layer_1`).
    """
    with zipfile.ZipFile(file) as archive:
        weights = io.BytesIO(archive.read("model.weights.h5"))
    arrays: list[np.ndarray] = []

    def visit(_: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            arrays.append(item[()])

    with h5py.File(weights, "r") as opened:
        opened.visititems(visit)  # In the order of the paths.
    yield ": weights", _of_arrays(arrays)


def _of_checkpoint(file: Path) -> Iterator[tuple[str, str]]:
    """Digest the header and each table of a checkpoint.

    The format is: magic, 16 bytes | version, u32 | length of the header, u64 | header, JSON | tables, each at a
    multiple of 64 bytes behind the header | SHA-256 of all before it.
    """
    content = file.read_bytes()
    preface = struct.Struct("<16sIQ")
    magic, version, length = preface.unpack_from(content)
    if magic != b"tfsm checkpoint\n":
        raise ValueError(f"{file.name}: not a checkpoint")
    if hashlib.sha256(content[:-32]).digest() != content[-32:]:
        raise ValueError(f"{file.name}: its digest does not fit")
    start = preface.size + length
    text = json.loads(content[preface.size : start])
    header = text["header"]
    about = header.pop("about")
    yield ": format", _of_json(version)
    yield ": header", _of_json(_stable(header))
    # Identifies the experiment of a checkpoint: with a different one it could not be resumed.
    yield ": experiment", _of_json(about["experiment"])
    for table in text["tables"]:
        size = int(np.prod(table["shape"], dtype=object)) * np.dtype(table["dtype"]).itemsize
        begin = start + table["offset"]
        described = json.dumps([table["name"], table["dtype"], table["shape"]]).encode()
        yield f": table {table['name']}", hashlib.sha256(described + content[begin : begin + size]).hexdigest()


def _of_arrays(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _of_json(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _stable(value: Any) -> Any:
    """Return JSON without what differs between two runs of the same code."""
    if isinstance(value, dict):
        return {key: _stable(item) for key, item in value.items() if key not in UNSTABLE_KEYS}
    if isinstance(value, list):
        return [_stable(item) for item in value]
    return value


# --- Running


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Runs commands of one executable.

    Attributes:
        tfsm: the executable.
        inputs: a directory with the files that commands may refer to.
    """

    tfsm: str
    inputs: Path

    def command(self, words: Sequence[str], cwd: Path) -> str:
        """Run `tfsm` with arguments and return its standard output; `CommandFailed` if it reports an error."""
        return _checked([self.tfsm, *words], cwd)

    def case(self, case: Case) -> Digests:
        """Run a case in a new directory and return the digests of its artefacts."""
        with tempfile.TemporaryDirectory(prefix="tfsm-golden-") as folder:
            cwd = Path(folder)
            shutil.copytree(self.inputs, cwd, dirs_exist_ok=True)
            printed = [self.command(words, cwd) for words in case.commands]
            found = digests_of(cwd)
        if case.printed:
            found |= {f"stdout {i}": _of_json(_stable(json.loads(text))) for i, text in enumerate(printed)}
        return found


def _environment() -> dict[str, str]:
    """Return an environment in which results do not depend on the number of cores or the user's own switches.

    The compile cache is left on: it is keyed by the program that is compiled, and an executable taken from it computes
    the same bits as a fresh one.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TFSM_") and key != "TF_XLA_FLAGS"}
    kept |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return kept | {
        "CUDA_VISIBLE_DEVICES": "-1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "120",
        "KERAS_BACKEND": "tensorflow",
    }


def _checked(command: Sequence[str], cwd: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, env=_environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"no end after {TIMEOUT:.0f} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise CommandFailed(lines[-1] if lines else f"exit code {done.returncode}")
    return done.stdout


def _run_all(cases: Mapping[str, Callable[[], Any]], jobs: int, describe: Callable[[str, Any], str]) -> dict[str, Any]:
    """Call every case, a few at a time, and print a line for each when it ends; an exception is its result."""
    results: dict[str, Any] = {}

    def timed(call: Callable[[], Any]) -> tuple[Any, float]:
        start = time.monotonic()
        try:
            result = call()
        except Exception as error:  # One case that fails must not hide the others.
            result = error
        return result, time.monotonic() - start

    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(timed, call): name for name, call in cases.items()}
        for future in as_completed(futures):
            name = futures[future]
            results[name], seconds = future.result()
            print(
                f"[{len(results)}/{len(cases)}] {name} ({seconds:.0f} s): {describe(name, results[name])}", flush=True
            )
    return results


# --- Stored run directories


def _stored(runner: Runner, folder: Path, name: str) -> dict[str, Any]:
    """Return what is printed for a stored directory, and the digests of a copy that was resumed."""
    with tempfile.TemporaryDirectory(prefix="tfsm-golden-") as temporary:
        cwd = Path(temporary)
        shutil.copytree(folder / name, cwd / name)
        found = {
            "report": json.loads(runner.command(("report", name, "--json"), cwd)),
            "show": json.loads(runner.command(("runs", "show", name, "--json"), cwd)),
            "stored": digests_of(cwd / name),
        }
        run = cwd / name / "run.json"
        if run.exists():
            evaluations = json.loads(run.read_text())["settings"]["evaluations"] + 40
            runner.command(("run", "--resume", name, "--evaluations", str(evaluations), "--quiet"), cwd)
            found["resumed"] = digests_of(cwd / name)
    return found


# --- The command line


def _differences(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    if isinstance(found, CommandFailed):
        yield f"failed: {found}"
    elif isinstance(found, Exception):
        yield f"failed: {type(found).__name__}: {found}"
    elif isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys()):
            place = f"{where} / {key}" if where else key
            if key not in found:
                yield f"{place} (missing)"
            elif key not in expected:
                yield f"{place} (new)"
            else:
                yield from _differences(expected[key], found[key], place)
    elif expected != found:
        yield where


def _format_differences(differences: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(differences[:most]) + (f" and {len(differences) - most} more" if len(differences) > most else "")
    if not differences or differences[0].startswith("failed: "):
        return shown or "ok"
    return f"DIFFERS in {shown}"


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=["record", "check", "record-runs", "check-runs"])
    parser.add_argument("file", type=Path, help="the digests, as JSON")
    parser.add_argument("folder", type=Path, nargs="?", help="stored run directories, for record-runs and check-runs")
    parser.add_argument("--tfsm", default=str(Path(sys.executable).with_name("tfsm")), help="the executable")
    parser.add_argument("--only", default="*", help="cases to run: a pattern such as 'operator/*', or part of a name")
    parser.add_argument("--missing", action="store_true", help="record only what is not yet in the file")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    given = parser.parse_args()
    stored = given.action.endswith("-runs")
    if stored and given.folder is None:
        parser.error("a folder of run directories is needed")

    with tempfile.TemporaryDirectory(prefix="tfsm-golden-") as inputs:
        runner = Runner(tfsm=os.path.abspath(given.tfsm), inputs=Path(inputs))
        names: dict[str, Callable[[], Any]]
        if stored:
            folder = given.folder.resolve()
            names = {
                path.name: lambda name=path.name: _stored(runner, folder, name)  # type: ignore[misc]
                for path in sorted(folder.iterdir())
                if path.is_dir()
            }
        else:
            names = {case.name: lambda case=case: runner.case(case) for case in _cases()}  # type: ignore[misc]
        chosen = {name: call for name, call in names.items() if _chosen(name, given.only)}
        if given.missing and given.file.exists():
            known = json.loads(given.file.read_text())
            chosen = {name: call for name, call in chosen.items() if name not in known}
        if not chosen:
            parser.error(f"no case matches {given.only}")
        if not stored:
            (runner.inputs / "maze.txt").write_text(MAZE)
            _checked([sys.executable, "-c", BUILD_MODELS], runner.inputs)
        start = time.monotonic()
        if given.action.startswith("record"):
            wrong = _record(given.file, chosen, given.jobs)
        else:
            wrong = _check(given.file, chosen, given.jobs, given.only)
    print(f"{len(chosen)} cases in {time.monotonic() - start:.0f} s, {wrong} of them not ok")
    return 1 if wrong else 0


def _record(file: Path, cases: Mapping[str, Callable[[], Any]], jobs: int) -> int:
    """Write the digests of cases, and keep those of others that the file has already; return how many failed."""
    kept = json.loads(file.read_text()) if file.exists() else {}

    def describe(name: str, result: Any) -> str:
        if isinstance(result, Exception):
            return _format_differences(list(_differences(None, result)))
        kept[name] = result
        # After each case, so that nothing is lost if this is interrupted; `--missing` resumes from there.
        file.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        return f"{len(result)} artefacts"

    results = _run_all(cases, jobs, describe)
    return sum(isinstance(result, Exception) for result in results.values())


def _check(file: Path, cases: Mapping[str, Callable[[], Any]], jobs: int, only: str) -> int:
    """Compare cases with what is recorded; return how many differ, failed, or exist no more."""
    recorded = json.loads(file.read_text())

    def differences(name: str, result: Any) -> list[str]:
        return list(_differences(recorded.get(name, {}), result))

    results = _run_all(cases, jobs, lambda name, result: _format_differences(differences(name, result)))
    wrong = sum(bool(differences(name, result)) for name, result in results.items())
    gone = sorted(name for name in recorded.keys() - cases.keys() if _chosen(name, only))
    for name in gone:
        print(f"{name}: recorded, but there is no such case")
    return wrong + len(gone)


def _chosen(name: str, only: str) -> bool:
    return fnmatch.fnmatch(name, only) or only in name


if __name__ == "__main__":
    sys.exit(main())
