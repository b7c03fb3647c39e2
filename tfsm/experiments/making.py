"""One individual as a task: a worker makes and evaluates what is ordered."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from tfsm.errors import TfsmError
from tfsm.evolution.nursery import Nursery
from tfsm.evolution.orders import Bred, Order
from tfsm.experiments.failing import as_users_see
from tfsm.experiments.parts import prepare
from tfsm.experiments.places.task import Desk
from tfsm.experiments.recipe import Recipe


@dataclass(frozen=True)
class MakeTask:
    """Makes one individual; yields once, when it begins, and returns what was bred."""

    experiment: str
    """Which one it is for."""
    order: Order
    recipe: Recipe | None = None
    """For a worker that has not made anything for this experiment yet."""

    def __call__(self, desk: Desk) -> Generator[Any, None, Bred]:
        """Make it, in a worker."""
        nurseries: dict[str, Nursery] = desk.kept.setdefault("nurseries", {})
        if self.experiment not in nurseries:
            if self.recipe is None:
                raise TfsmError("a worker was given an order, and does not know of which experiment")
            nurseries.clear()  # the memory of the one before
            recipe = self.recipe.for_runs(1)
            prepared = prepare(recipe.plugins(), recipe.settings, model=recipe.model)
            nurseries[self.experiment] = Nursery(prepared.breeder())
        yield "begun"
        try:
            return nurseries[self.experiment].make(self.order)
        except Exception as error:
            if (told := as_users_see(error)) is not error:
                raise told from error
            raise
