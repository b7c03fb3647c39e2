"""Where an experiment's work is done, as the user says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from tfsm.errors import TfsmError, suggestion
from tfsm.experiments.places.task import Pool
from tfsm.experiments.places.threads import cores

Backend: TypeAlias = Literal["local", "processes", "ray"]
Grain: TypeAlias = Literal["runs", "children"]
BACKENDS: Final = get_args(Backend)
GRAINS: Final = get_args(Grain)


@dataclass(frozen=True)
class Where:
    """Which workers, how many, and what each is given at a time."""

    backend: Backend = "local"
    workers: int | None = None
    """How many; one for each core, or CPU of a cluster, if None."""
    address: str | None = None
    """Which Ray; None starts one on this machine."""
    grain: Grain = "runs"
    """Whole groups of runs, or one child."""

    @property
    def here(self) -> bool:
        """Whether everything is done by this process itself."""
        return self.backend == "local"

    def pool(self, notify: Callable[[str], None]) -> Pool:
        """Start the workers."""
        if self.backend == "ray":
            from tfsm.experiments.places.raying import RayPool

            return RayPool(self.workers, self.address, notify=notify)
        from tfsm.experiments.places.processes import ProcessPool

        return ProcessPool(self.workers or cores())

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)


def where_before(record: Mapping[str, Any], directory: Path, wanted: Where, *, said: bool) -> Where:
    """Return where to go on with an experiment: where it was, unless the user said otherwise.

    Args:
        record: what its directory says of itself.
        directory: the directory, for messages.
        wanted: where the user wants it.
        said: whether he said anything of it.
    """
    told = _told(record)
    before = where(*(told.get(key) for key in ("backend", "workers", "address", "grain")))
    if not said:
        return before
    check_grain(record, directory, wanted.grain)
    return wanted


def check_grain(record: Mapping[str, Any], directory: Path, wanted: str) -> None:
    """Refuse to go on with an experiment otherwise than it was begun: it would become a mixture of two."""
    before = _told(record).get("grain") or "runs"
    if wanted != before:
        raise TfsmError(f"{directory}: was begun with --grain {before}, and goes on with that only")


def _told(record: Mapping[str, Any]) -> Mapping[str, Any]:
    plan = record.get("plan")
    told = plan.get("place", {}) if isinstance(plan, dict) else {}
    return told if isinstance(told, dict) else {}


def where(
    backend: str | None = None, workers: int | None = None, address: str | None = None, grain: str | None = None
) -> Where:
    """Return where to work, from what a user said; what does not fit together is an error that says so."""
    chosen = backend or ("ray" if address is not None else "processes" if workers is not None or grain else "local")
    for name, value, known in (("backend", chosen, BACKENDS), ("grain", grain or "runs", GRAINS)):
        if value not in known:
            raise TfsmError(f"--{name} {value}: no such {name}{suggestion(value, known)}")
    if workers is not None and workers < 1:
        raise TfsmError(f"--workers {workers}: expected at least 1")
    if address is not None and chosen != "ray":
        raise TfsmError(f"--address {address}: only --backend ray has an address, and this is --backend {chosen}")
    if chosen == "local" and (workers is not None or grain == "children"):
        what = "--workers" if workers is not None else "--grain children"
        raise TfsmError(f"{what}: --backend local has no workers; choose --backend processes or ray")
    return Where(chosen, workers, address, grain or "runs")  # type: ignore[arg-type]
