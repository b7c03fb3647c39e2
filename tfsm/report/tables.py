"""The tables of a report, the warnings before them, the provenance of the runs, and the whole report as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import Any, Final

from tfsm.analysis import Comparison, MethodSummary, Verdict, is_significant
from tfsm.analysis.results import Method, Study, method_names
from tfsm.errors import TfsmError
from tfsm.report.findings import Findings
from tfsm.report.formatting import MISSING, format_interval, format_number, format_p_value, format_percent, join_words
from tfsm.settings.schema import flatten_settings
from tfsm.utils.files import atomic_write, to_json


@dataclass(frozen=True)
class Table:
    """A table of texts. The first cell of a row names its subject."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    """The columns that hold numbers."""
    notes: tuple[str, ...] = ()
    grouped: bool = False
    """Whether consecutive rows with the same first cell form a group, with that cell as its heading."""

    @property
    def groups(self) -> list[tuple[str, list[tuple[str, ...]]]]:
        """The groups of rows by heading."""
        return [(heading, list(rows)) for heading, rows in groupby(self.rows, key=lambda row: row[0])]


def tabulate_results(findings: Findings) -> Table:
    """Return how many runs each method solved, how soon, and how fit they became."""
    return Table(
        "Results by method, with 95% confidence intervals",
        ("method", "solved", "success rate", "median evaluations", "best fitness"),
        tuple(_summary_row(*pair) for pair in zip(findings.summaries, findings.study.methods, strict=True)),
        numeric=frozenset({1, 2, 3, 4}),
        notes=(
            "Success rate: the share of runs solved, with its Wilson interval.",
            "Median evaluations: evaluations to a solution, over all runs; unsolved runs rank last. Not reached if "
            "fewer than half of the runs were solved. With few runs, an end of the interval may be unknown.",
            "Best fitness: the median over runs of the best fitness of each run, and its range.",
        ),
    )


def tabulate_effects(findings: Findings) -> Table:
    """Return how large the differences between methods are."""
    return Table(
        "Effect sizes",
        ("methods", "first is faster", "difference in success rate"),
        tuple(_effect_row(comparison) for comparison in findings.comparisons),
        numeric=frozenset({1, 2}),
        notes=(
            "First is faster: the probability that a run of the first method is solved sooner than a run of the "
            "second. Ties count half (Vargha and Delaney's A); 50% means no difference.",
            "Difference in success rate: first minus second, with Newcombe's 95% interval.",
        ),
    )


def tabulate_tests(findings: Findings) -> Table:
    """Return the significance tests of all comparisons."""
    return Table(
        "Two-sided significance tests",
        ("methods", "question", "test", "p", "p (Holm)", "at 5%", "note"),
        tuple(
            (format_pair(comparison), describe_question(key, comparison), verdict.test, *_verdict_cells(verdict))
            for comparison in findings.comparisons
            for key, verdict in comparison.verdicts.items()
        ),
        numeric=frozenset({3, 4}),
        notes=(
            "p (Holm): adjusted by Holm's method over all pairs, separately for each test. Only this value decides "
            "whether a difference is significant.",
            "Not significant does not mean equal: there may be too few runs to detect a difference.",
        ),
        grouped=True,
    )


def tabulate_runs(study: Study) -> Table:
    """Return which runs the report covers, and how they ended."""
    return Table(
        "Runs in this report",
        ("method", "completed", "budget", "seed", "status", "started (UTC)", "duration", "directory"),
        tuple(
            (
                method.name,
                _completed(method),
                f"{method.budget:,}",
                str(method.record.get("seed", MISSING)),
                _status(method),
                _start_time(method),
                _duration(method),
                MISSING if method.directory is None else str(method.directory),
            )
            for method in study.methods
        ),
        numeric=frozenset({1, 2, 3}),
        notes=("Budget: the maximum number of evaluations per run.",),
    )


def tabulate_settings(study: Study) -> Table:
    """Return all settings."""
    return Table("All settings", ("setting", *method_names(study.methods)), _setting_rows(study))


def tabulate_setting_differences(study: Study) -> Table:
    """Return the settings in which the methods differ."""
    rows = tuple(row for row in _setting_rows(study) if len(set(row[1:])) > 1)
    return Table("Settings that differ between methods", ("setting", *method_names(study.methods)), rows)


def collect_warnings(study: Study) -> list[str]:
    """Return what a reader must know before trusting a number."""
    warnings = []
    unfinished = [method for method in study.methods if not _is_finished(method)]
    if unfinished:
        which = [f"{method.name} ({_status(method)}, {_completed(method)} runs completed)" for method in unfinished]
        warnings.append(f"Unfinished: {join_words(which)}. These results may change.")
    for scale in dict.fromkeys(_scale(method) for method in study.methods):
        if scale is not None:
            which = [method.name for method in study.methods if _scale(method) == scale]
            warnings.append(
                f"Scaled down (scale {scale}): {join_words(which)}. These runs are fewer or shorter than in the full "
                "experiment, and nothing here is a result of that experiment."
            )
    budgets = {method.budget for method in study.methods}
    if len(budgets) > 1:
        warnings.append(
            "The methods had different budgets, so their final success rates are not comparable. "
            f"Use --at {min(budgets)} to compare them within the smallest budget."
        )
    return warnings


def list_commands(study: Study) -> list[str]:
    """Return the command lines of the runs, without duplicates."""
    commands = [method.record.get("command") for method in study.methods]
    lines = [shlex.join(map(str, words)) for words in commands if isinstance(words, list) and words]
    return list(dict.fromkeys(lines))


def list_versions(study: Study) -> list[tuple[str, str]]:
    """Return the software versions of the runs; several of a package if methods were run with different ones."""
    packages: dict[str, dict[str, None]] = {}
    for method in study.methods:
        recorded = method.record.get("versions")
        for package, version in recorded.items() if isinstance(recorded, dict) else ():
            packages.setdefault(str(package), {})[str(version)] = None
    return [(package, " and ".join(versions)) for package, versions in packages.items()]


def count_requested_runs(method: Method) -> int:
    """Return how many runs of a method were requested."""
    runs = method.settings.get("runs")
    return runs if isinstance(runs, int) else len(method.outcomes)


def format_pair(comparison: Comparison) -> str:
    """Return the names of the methods that are compared."""
    return f"{comparison.first} vs. {comparison.second}"


def describe_question(key: str, comparison: Comparison) -> str:
    """Return the question that a test answers."""
    return {
        "mann-whitney-all": "faster, unsolved runs last?",
        "mann-whitney-solved": "faster, among solved runs?",
        "barnard-end": "more runs solved at the end?",
        "barnard-at": f"more runs solved within {format_number(comparison.at)}?",
        "log-rank": "solved sooner over time?",
        "mann-whitney-fitness": "fitter at the end?",
    }.get(key, key)


def _summary_row(summary: MethodSummary, method: Method) -> tuple[str, ...]:
    median, ends = summary.median_evaluations, summary.median_interval
    low, high = map(format_percent, summary.share_interval)
    return (
        summary.name,
        f"{summary.solved} of {summary.runs}",
        f"{format_percent(summary.share)} ({low} to {high})",
        "not reached" if median is None else f"{format_number(median)} ({format_interval(*ends)})",
        _format_fitness(summary, method),
    )


def _format_fitness(summary: MethodSummary, method: Method) -> str:
    logged = [outcome.best_fitness for outcome in method.outcomes if outcome.best_fitness is not None]
    finite = [fitness for fitness in logged if isfinite(fitness)]
    if not finite or summary.median_best_fitness is None:
        return MISSING
    median = format_number(summary.median_best_fitness)
    return median if len(finite) == 1 else f"{median} ({format_number(min(finite))} to {format_number(max(finite))})"


def _effect_row(comparison: Comparison) -> tuple[str, ...]:
    faster, difference = comparison.superiority, comparison.solved_difference
    return (
        format_pair(comparison),
        MISSING if faster is None else format_percent(faster),
        MISSING if difference is None else f"{difference.value:+.0%} ({difference.low:+.0%} to {difference.high:+.0%})",
    )


def _verdict_cells(verdict: Verdict) -> tuple[str, str, str, str]:
    decision = "significant" if is_significant(verdict) else "not significant"
    decision = decision if verdict.p is not None else "not tested"
    return format_p_value(verdict.p), format_p_value(verdict.adjusted), decision, verdict.note


def _setting_rows(study: Study) -> tuple[tuple[str, ...], ...]:
    flat = [flatten_settings(method.settings) for method in study.methods]
    keys = dict.fromkeys(key for settings in flat for key in settings)
    return tuple(
        (key, *(_format_setting(settings[key]) if key in settings else MISSING for settings in flat)) for key in keys
    )


def _format_setting(value: object) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _is_finished(method: Method) -> bool:
    # Handwritten records may have no status; what they contain is all there is.
    status = method.record.get("status", "finished")
    return status == "finished" and len(method.outcomes) >= count_requested_runs(method)


def _status(method: Method) -> str:
    return str(method.record.get("status", "unknown"))


def _completed(method: Method) -> str:
    return f"{len(method.outcomes)} of {count_requested_runs(method)}"


def _scale(method: Method) -> str | None:
    scale: Any = method.record.get("scale")
    return None if scale is None or scale == 1 or scale is False else str(scale)


def _start_time(method: Method) -> str:
    try:
        return f"{datetime.fromisoformat(method.record['started']):%Y-%m-%d %H:%M}"
    except (KeyError, TypeError, ValueError):
        return MISSING


def _duration(method: Method) -> str:
    try:
        started, ended = (datetime.fromisoformat(method.record[key]) for key in ("started", "ended"))
        return str(timedelta(seconds=round((ended - started).total_seconds())))
    except (KeyError, TypeError, ValueError):
        return MISSING


PAGE_SUFFIXES: Final = (".html", ".htm")


def build_document(findings: Sequence[Findings]) -> dict[str, Any]:
    """Return everything in a report as JSON data, except what can be computed from it."""
    return {"studies": [_convert_study(study) for study in findings]}


def _convert_study(findings: Findings) -> dict[str, Any]:
    study = findings.study
    return {
        "domain": study.domain,
        "budget": study.budget,
        "at": findings.at,
        "baseline": findings.baseline,
        "band": findings.band,
        "warnings": collect_warnings(study),
        "methods": [_convert_method(method, findings) for method in study.methods],
        "comparisons": to_json(findings.comparisons),
    }


def _convert_method(method: Method, findings: Findings) -> dict[str, Any]:
    name = method.name
    summary = next(summary for summary in findings.summaries if summary.name == name)
    return {
        "name": name,
        "directory": None if method.directory is None else str(method.directory),
        **{key: method.record.get(key) for key in ("status", "seed", "started", "ended", "command", "versions")},
        "scale": method.record.get("scale"),
        "budget": method.budget,
        "runs_asked": count_requested_runs(method),
        "runs": to_json(method.outcomes),
        "summary": to_json(summary),
        "solved_curve": to_json(findings.solved[name]),
        "fitness_curve": to_json(findings.fitness.get(name)),
        "diagnostics": {
            diagnostic.key: to_json(diagnostic.series[name])
            for diagnostic in findings.diagnostics
            if name in diagnostic.series
        },
        "sensitivity": to_json(findings.sensitivity.get(name)),
        "settings": to_json(method.settings),
    }


def check_page_path(file: Path) -> None:
    """Raise an error unless a page can be written to this file."""
    if file.is_dir():
        raise TfsmError(f"{file}: is a directory; --html expects a file such as report.html")
    if file.suffix.lower() not in PAGE_SUFFIXES:
        raise TfsmError(f"{file}: expected a file name ending in {' or '.join(PAGE_SUFFIXES)}")
    if not file.parent.is_dir():
        raise TfsmError(f"{file}: there is no directory {str(file.parent)!r}")


def make_directory(folder: Path) -> None:
    """Create a directory for figures, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise TfsmError(f"{folder}: is a file; --figures expects a directory") from None
    except OSError as error:
        raise TfsmError(f"{folder}: cannot create the directory: {error.strerror}") from None


def write_file(file: Path, content: bytes) -> None:
    """Write a file, replacing an older one of the same name."""
    try:
        with atomic_write(file) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise TfsmError(f"{file}: cannot be written: {error.strerror}") from None
