"""An observer that logs to MLflow: every run of an experiment becomes an MLflow run, with its champion.

    python examples/mlflow_observer.py

evolves two small runs with the observer object itself. To use it by name, put this file into a package of your own:

    [project.entry-points.tfsm]
    mlflow = "mlflow_observer"

and then

    tfsm run parity --mutation sm-g-sum --runs 20 --observer mlflow --set mlflow.experiment=parity

Needs mlflow (`pip install mlflow`), which tfsm itself does not. See
docs/reference/parts/observer.md for the events of an observer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import Doc

import tfsm
from tfsm.plugins.registry import Registry

if TYPE_CHECKING:
    from tfsm.evolution.observers import ExperimentInfo, Interval, RunResult, Status

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


class MlflowObserver(tfsm.Observer):
    """Logs settings as parameters, metrics against evaluations, and the champion as an artifact.

    A new object is created for each experiment, so it may keep state.
    """

    def __init__(self, **options: Any) -> None:
        self.options = MlflowOptions(**options)
        self._ids: dict[int, str] = {}

    def on_experiment_start(self, experiment: ExperimentInfo) -> None:
        """Find the MLflow experiment."""
        import mlflow  # imported here to keep listing observers quick

        self._client = mlflow.MlflowClient()
        self._number = mlflow.set_experiment(self.options.experiment).experiment_id
        self._experiment = experiment

    def on_interval(self, interval: Interval) -> None:
        """Log the run's numbers, without those per layer and those that are unknown."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        low, _, median, _, high = interval.metrics["divergence_quantiles"]
        values = {**interval.metrics, "divergence_min": low, "divergence_median": median, "divergence_max": high}
        numbers = {name: value for name, value in values.items() if isinstance(value, float)}
        logged = [Metric(name, value, now, interval.evaluations) for name, value in numbers.items()]
        self._client.log_batch(self._id(interval.run), metrics=logged)

    def on_run_end(self, result: RunResult) -> None:
        """Tag a solved run, and log the champion, which is in the run directory by now."""
        if result.solved:
            self._client.set_tag(self._id(result.run), "solved_after", str(result.evaluations))
        directory = self._experiment.directory
        if self.options.champions and directory is not None:
            champion = directory / "champions" / f"run-{result.run:03d}.keras"
            self._client.log_artifact(self._id(result.run), str(champion))

    def on_experiment_end(self, status: Status) -> None:
        """Close all runs."""
        for number in self._ids.values():
            self._client.set_terminated(number, STATUS[status])

    def _id(self, run: int) -> str:
        """Return MLflow's id of a run, which is created on first use."""
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
