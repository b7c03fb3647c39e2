"""The emitter in pyribs' own archive and scheduler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ribs", reason="ribs is not installed: pip install 'tfsm[ribs]'")

from ribs.archives import GridArchive
from ribs.schedulers import Scheduler

import tfsm
from tests.integrations.networks import SEEN, make_network
from tfsm.errors import TfsmError
from tfsm.integrations.ribs import SafeEmitter

MODEL = make_network()
SIZE = tfsm.flatten(MODEL).size
FIELDS: dict[str, Any] = {"experience": ((6, 3), np.float32)}


def make_archive(**options: Any) -> GridArchive:
    return GridArchive(solution_dim=SIZE, dims=[8, 8], ranges=[(-2.0, 2.0)] * 2, seed=0, **options)


def fill(archive: GridArchive, genomes: np.ndarray, **fields: np.ndarray) -> None:
    archive.add(genomes, np.zeros(len(genomes)), genomes[:, :2], **fields)


def test_children_of_elites_have_the_divergence_on_the_shared_experience() -> None:
    archive = make_archive()
    parent = tfsm.functional.initial(MODEL, 1, seed=3)
    fill(archive, parent)
    emitter = SafeEmitter(archive, MODEL, divergence=0.02, experience=SEEN, batch_size=5, seed=1)
    children = emitter.ask()
    assert children.shape == (5, SIZE)
    assert len(np.unique(children, axis=0)) == 5
    moved = tfsm.functional.divergence(MODEL, np.repeat(parent, 5, axis=0), children, SEEN)
    np.testing.assert_allclose(moved, 0.02, rtol=0.06)


def test_each_elite_is_mutated_on_its_own_experience() -> None:
    archive = make_archive(extra_fields=FIELDS)
    parents = tfsm.functional.initial(MODEL, 2, seed=3)
    fill(archive, parents, experience=np.stack([SEEN, 3.0 * SEEN]))
    assert len(archive) == 2
    children = SafeEmitter(archive, MODEL, divergence=0.02, batch_size=12, seed=1).ask()
    moved = [
        tfsm.functional.divergence(MODEL, np.repeat(parent[None], 12, axis=0), children, scale * SEEN)
        for parent, scale in zip(parents, (1.0, 3.0), strict=True)
    ]
    hits = np.isclose(moved, 0.02, rtol=0.06)
    assert hits.any(axis=0).all()
    assert hits.any(axis=1).all()


def test_an_empty_archive_gets_random_or_given_solutions_within_the_bounds() -> None:
    shared: dict[str, Any] = {"experience": SEEN, "batch_size": 4, "seed": 1}
    first, again = (SafeEmitter(make_archive(), MODEL, **shared).ask() for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (4, SIZE)
    bounded = SafeEmitter(make_archive(), MODEL, bounds=[(-0.1, 0.1)] * SIZE, **shared).ask()
    assert np.abs(bounded).max() == pytest.approx(0.1)
    given = np.ones([3, SIZE])
    np.testing.assert_array_equal(SafeEmitter(make_archive(), MODEL, initial_solutions=given, **shared).ask(), given)


def test_a_scheduler_of_pyribs_fills_the_archive() -> None:
    archive = make_archive(extra_fields=FIELDS)
    emitter = SafeEmitter(archive, MODEL, mutation="control", intensity=1.0, batch_size=8, seed=1)
    scheduler = Scheduler(archive, [emitter])
    for _ in range(4):
        genomes = scheduler.ask()
        scheduler.tell(np.zeros(8), np.tanh(genomes[:, :2]), experience=np.repeat(SEEN[None], 8, axis=0))
    assert archive.stats.num_elites > 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"^the archive has no field 'experience': pass experience, or extra_fields="),
        ({"experience": SEEN, "mutation": "sm-x"}, "no mutation named 'sm-x'"),
    ],
)
def test_mistakes_are_one_line(options: dict[str, Any], message: str) -> None:
    archive = make_archive()
    fill(archive, tfsm.functional.initial(MODEL, 1))
    with pytest.raises(TfsmError, match=message):
        SafeEmitter(archive, MODEL, **options).ask()


def test_an_archive_of_other_genomes_is_refused() -> None:
    archive = GridArchive(solution_dim=4, dims=[8], ranges=[(-2.0, 2.0)])
    with pytest.raises(TfsmError, match=f"^the archive's solution_dim is 4, but the model has {SIZE} weights$"):
        SafeEmitter(archive, MODEL, experience=SEEN)
