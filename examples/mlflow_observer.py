"""An observer that logs to MLflow: every run of an experiment becomes an MLflow run, with its champion.

    python examples/mlflow_observer.py

evolves two small runs and hands over the observer itself. To have it by name, put this file into a package of yours:

    [project.entry-points.tfsm]
    mlflow = "mlflow_observer"

and then

    tfsm run parity --mutation sm-g-sum --runs 20 --observer mlflow --set mlflow.experiment=parity

Needs mlflow (`pip install mlflow`), which tfsm itself does not. See docs/plugins.md for what an observer hears.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import Doc

import tfsm
from tfsm.plugins.registry import Registry

if TYPE_CHECKING:
    from tfsm.evolution.observers import Experiment, RunResult, Status

STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


@dataclass(frozen=True, kw_only=True)
class MlflowOptions:
    """Options, as `tfsm observers mlflow` lists them."""

    experiment: Annotated[str, Doc("name of the MLflow experiment")] = "tfsm"
    champions: Annotated[bool, Doc("keep each run's champion as an artifact")] = True


@tfsm.hookimpl
def tfsm_register_observers(registry: Registry) -> None:
    """Register the observer by name."""
    registry.add(
        "mlflow",
        "mlflow_observer:MlflowObserver",
        description="every run as an MLflow run, with its champion",
        options=MlflowOptions,
    )


class MlflowObserver:
    """Logs settings as parameters, metrics against evaluations, and the champion as an artifact.

    A new one is made for each experiment, so that it may remember what it needs.
    """

    def __init__(self, **options: Any) -> None:
        self.options = MlflowOptions(**options)
        self._ids: dict[int, str] = {}

    def started(self, experiment: Experiment) -> None:
        """Find the MLflow experiment."""
        import mlflow  # here, so that listing observers stays quick

        self._client = mlflow.MlflowClient()
        self._number = mlflow.set_experiment(self.options.experiment).experiment_id
        self._experiment = experiment

    def interval(self, metrics: list[dict[str, Any]]) -> None:
        """Log the numbers of each run; those by layer, and what is not known, are left out."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        for line in metrics:
            low, _, median, _, high = line["divergence_quantiles"]
            values = {**line, "divergence_min": low, "divergence_median": median, "divergence_max": high}
            numbers = {name: value for name, value in values.items() if isinstance(value, float)}
            logged = [Metric(name, value, now, line["evaluations"]) for name, value in numbers.items()]
            self._client.log_batch(self._id(line["run"]), metrics=logged)

    def solved(self, run: int, evaluations: int) -> None:
        """Mark the run, so that solved ones can be searched for."""
        self._client.set_tag(self._id(run), "solved_after", str(evaluations))

    def finished(self, result: RunResult) -> None:
        """Hand over the champion, which is in the run directory by now."""
        directory = self._experiment.directory
        if self.options.champions and directory is not None:
            champion = directory / "champions" / f"run-{result.run:03d}.keras"
            self._client.log_artifact(self._id(result.run), str(champion))

    def ended(self, status: Status) -> None:
        """Close all runs."""
        for number in self._ids.values():
            self._client.set_terminated(number, STATUS[status])

    def _id(self, run: int) -> str:
        """Return MLflow's name for a run, which is made when it is first heard of."""
        if run not in self._ids:
            settings = self._experiment.settings
            name = f"{settings['domain']}-{settings['mutation']}-{run:03d}"
            self._ids[run] = self._client.create_run(self._number, run_name=name).info.run_id
            for key, value in settings.items():
                self._client.log_param(self._ids[run], key, value)
        return self._ids[run]


if __name__ == "__main__":
    result = tfsm.evolve("simple-easy", mutation="sm-g-abs", runs=2, seed=1, observers=[MlflowObserver()])
    print(f"solved {result.solved} of {len(result.runs)} runs; see them with: mlflow ui")
