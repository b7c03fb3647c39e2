"""What becomes of individuals that were evaluated."""

from __future__ import annotations

import tensorflow as tf

from tfsm.contracts import Evaluation, Newcomer, Population, Tensor
from tfsm.evolution.breeder import Breeder
from tfsm.evolution.breeding import Drawn, Offspring
from tfsm.evolution.recording import after, record, tally
from tfsm.evolution.selecting import Selector
from tfsm.evolution.state import State


class Settler:
    """Lets individuals into the populations or not, and writes down what there is to know of them.

    Args:
        state: the populations.
        selector: who lets them in.
        breeder: who made them.
    """

    def __init__(self, state: State, selector: Selector, breeder: Breeder) -> None:
        self._state, self._breeder = state, breeder
        # What a scheme that surveys does are many tiny operations; the others compare two numbers.
        self._admit, self._welcome = (
            tf.function(function, jit_compile=True) if selector.surveys else function
            for function in (selector.admit, selector.begin)
        )

    def first(
        self,
        lanes: Tensor,
        live: Tensor,
        number: Tensor,
        view: Population,
        seed: Tensor,
        genomes: Tensor,
        found: Evaluation,
    ) -> None:
        """Settle first individuals.

        Args:
            lanes: of the runs, `[W]`, each there once.
            live: which of them count, `[W]`.
            number: the individuals', `[W]`.
            view: the populations.
            seed: those by which they were evaluated, `[W, 2]`.
            genomes: `[W, P]`.
            found: what was found of them.
        """
        found = found._replace(fitness=_worst_if_broken(found.fitness))
        admission = self._welcome(view, _newcomer(found, number % self._state.population), seed)
        record(self._state, lanes, live, admission, genomes, found)

    def children(
        self, lanes: Tensor, live: Tensor, view: Population, drawn: Drawn, children: Offspring, found: Evaluation
    ) -> None:
        """Settle children.

        Args:
            lanes: of the runs, `[W]`, each there once.
            live: which of them count, `[W]`.
            view: the populations.
            drawn: whose places they may take.
            children: the children.
            found: what was found of them.
        """
        found = found._replace(fitness=_worst_if_broken(found.fitness))
        admission = self._admit(view, _newcomer(found, drawn.replaced), drawn.evaluate_seed)
        marks = dict(children.diagnostics)
        if self._breeder.adaptation.on:
            marks["intensity"] = tf.cast(self._breeder.intensity, tf.float32) * children.strength
        tally(self._state, lanes, live, found.fitness, children.rivals, marks)
        if self._breeder.adaptation.mode == "divergence":
            with after(found.fitness):
                self._correct(lanes, live & ~(children.moved < 0), children)
        record(self._state, lanes, live, admission, children.genomes, found, children.strength)

    def _correct(self, lanes: Tensor, live: Tensor, children: Offspring) -> None:
        """Bring the next children nearer to the wanted divergence."""
        corrected = self._breeder.corrected(children.strength, children.moved)
        where = tf.where(live)[:, 0]
        self._state.control.scatter_nd_update(tf.gather(lanes, where)[:, None], tf.gather(corrected, where))


def _worst_if_broken(fitness: Tensor) -> Tensor:
    return tf.where(tf.math.is_finite(fitness), fitness, float("-inf"))


def _newcomer(found: Evaluation, slots: Tensor) -> Newcomer:
    cases = found.cases
    if isinstance(cases, tuple):
        cases = tf.zeros([*found.fitness.shape, 0])
    return Newcomer(found.fitness, found.behavior, cases, slots)
