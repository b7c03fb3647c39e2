"""Whole groups of runs as tasks: a worker evolves a group as it would be evolved here, and tells what happens."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from tfsm.evolution.cadence import Cadence, Every
from tfsm.evolution.loop import Loop
from tfsm.evolution.packing import packed, unpacked
from tfsm.evolution.saving import Saved
from tfsm.experiments.failing import as_users_see
from tfsm.experiments.observing import Passing
from tfsm.experiments.parts import Engines
from tfsm.experiments.places.task import Desk
from tfsm.experiments.recipe import Recipe


class Told(NamedTuple):
    """Something that happened: a method of `Observer`, or `checkpoint`, with its arguments."""

    event: str
    arguments: tuple[Any, ...]


class GroupEnd(NamedTuple):
    """How a group came to its end."""

    interrupted: bool
    compile_seconds: float
    evaluated: int


class Outbox(Passing):
    """An observer, and keeper of checkpoints, that writes everything down to be sent.

    Args:
        about: what a checkpoint says of its experiment.
        every: how often there is one.
    """

    def __init__(self, about: Mapping[str, Any], every: Every) -> None:
        self._about, self._cadence = about, Cadence(every)
        self._told: list[Told] = []

    def take(self) -> list[Told]:
        """Return what was written down, and begin anew."""
        told, self._told = self._told, []
        return told

    def bound(self, spent: int) -> int:
        """Return the number of evaluations, above `spent`, at which to look again at the latest."""
        return self._cadence.bound(spent)

    def due(self, spent: int) -> bool:
        """Say whether it is time for a checkpoint."""
        return self._cadence.due(spent)

    def keep(self, saved: Saved, *, last: bool = False) -> None:
        """Write it down."""
        began = perf_counter()
        self._tell("checkpoint", packed(saved, self._about), last)
        self._cadence.took(saved.spent, perf_counter() - began)

    def _tell(self, event: str, *arguments: Any) -> None:
        self._told.append(Told(event, arguments))


@dataclass(frozen=True)
class GroupTask:
    """Evolves some runs that follow one another; yields lists of what happened."""

    recipe: Recipe
    """For as many runs as there are in the group."""
    runs: range
    about: Mapping[str, Any]
    every: Every
    saved: tuple[bytes, ...] = ()
    """Where they stood when they were left."""

    def __call__(self, desk: Desk) -> Generator[list[Told], None, GroupEnd]:
        """Evolve, in a worker."""
        settings = self.recipe.settings
        engines: Engines = desk.kept.setdefault("engines", Engines())
        engine = engines.engine(self.recipe.plugins(), settings, model=self.recipe.model)
        outbox = Outbox(self.about, self.every)
        # It may have been another experiment's.
        engine.care.warn, engine.care.broken = lambda message: outbox._tell("notify", message), 0
        loop = Loop(
            engine,
            seed=settings.seed,
            runs=self.runs,
            evaluations=settings.evaluations,
            log_every=settings.log_every,
            observers=[outbox],
            stop=desk.stopping,
            checkpoints=outbox,
            saved=[unpacked(content)[0] for content in self.saved],
        )
        try:
            for _ in loop.steps():
                yield outbox.take()
        except Exception as error:
            yield outbox.take()  # what was rescued
            if (told := as_users_see(error)) is not error:
                raise told from error
            raise
        yield outbox.take()
        return GroupEnd(loop.interrupted, loop.compile_seconds, loop.evaluated)
