"""Observers that pass scores on to the tools people have: logging, TensorBoard, MLflow, W&B.

duotone.run(..., observers=[duotone.TensorBoard("logs")])

Each writes the settings once and the headline scores of every evaluated round. The tools are
optional: pip install 'duotone[track]' brings TensorBoard, 'duotone[mlflow]' MLflow and
'duotone[wandb]' Weights & Biases.
"""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from typing import Any

from duotone.config import RunConfig
from duotone.errors import MissingExtraError
from duotone.runs.execute import Progress
from duotone.runs.folder import RunFolder
from duotone.runs.plan import Plan


def _tool(module: str, package: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"This tracker needs {package}, which is not installed: pip install 'duotone[{extra}]'"
        ) from error


def flat_settings(config: RunConfig) -> dict[str, str]:
    """Return settings as pairs of texts, tables with a dot: ``method.lr``."""
    found: dict[str, str] = {}
    for name, value in config.model_dump().items():
        if isinstance(value, dict):
            found |= {f"{name}.{key}": str(inner) for key, inner in value.items()}
        elif value is not None:
            found[name] = str(value)
    return found


class Logging:
    """Passes everything on to Python's ``logging``, by default to the logger ``duotone``."""

    def __init__(self, logger: str = "duotone") -> None:
        self._logger = logging.getLogger(logger)

    def run_started(self, folder: RunFolder, plan: Plan, round: int) -> None:
        """Say what starts, and where it is kept."""
        self._logger.info("%s starts after round %d in %s", plan.method.name, round, folder.path)

    def round_committed(self, progress: Progress) -> None:
        """Say how far it is."""
        scores = progress.scores if progress.evaluated else {}
        said = " ".join(f"{name}={value:.4f}" for name, value in scores.items())
        self._logger.info("round %d of %d %s", progress.round, progress.rounds, said)

    def message(self, line: str) -> None:
        """Pass a warning on."""
        self._logger.warning("%s", line)


class TensorBoard:
    """Writes event files for TensorBoard.

    Args:
        folder: Where they go; each run has a folder of its own in it, called as the run's.

    Raises:
        MissingExtraError: TensorBoard is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        self._writer = _tool("torch.utils.tensorboard", "tensorboard", "track").SummaryWriter
        self._folder = Path(folder)
        self._open: Any = None

    def run_started(self, folder: RunFolder, plan: Plan, round: int) -> None:
        """Open the file, and write the settings as text."""
        self._open = self._writer(str(self._folder / folder.path.name))
        settings = "\n".join(f"    {k} = {v}" for k, v in flat_settings(plan.config).items())
        self._open.add_text("settings", settings, round)

    def round_committed(self, progress: Progress) -> None:
        """Write the scores of an evaluated round."""
        if progress.evaluated:
            for name, value in progress.scores.items():
                self._open.add_scalar(name, value, progress.round)
            self._open.flush()
        if progress.round == progress.rounds:
            self._open.close()

    def message(self, line: str) -> None:
        """Nothing: warnings are in the run's log."""


class MLflow:
    """Logs to the active MLflow run, or to a new one called as the run folder.

    Where it goes is MLflow's own setting, such as
    ``mlflow.set_tracking_uri("sqlite:///mlflow.db")``.

    Raises:
        MissingExtraError: MLflow is not installed.
    """

    def __init__(self) -> None:
        self._mlflow = _tool("mlflow", "mlflow", "mlflow")
        self._is_own = False

    def run_started(self, folder: RunFolder, plan: Plan, round: int) -> None:
        """Begin a run, unless there is one, and log the settings."""
        self._is_own = self._mlflow.active_run() is None
        if self._is_own:
            self._mlflow.start_run(run_name=folder.path.name)
        self._mlflow.log_params(flat_settings(plan.config))

    def round_committed(self, progress: Progress) -> None:
        """Log the scores of an evaluated round; the last one ends a run that was begun here."""
        if progress.evaluated:
            self._mlflow.log_metrics(dict(progress.scores), step=progress.round)
        if progress.round == progress.rounds and self._is_own:
            self._mlflow.end_run()

    def message(self, line: str) -> None:
        """Nothing: warnings are in the run's log."""


class WandB:
    """Logs to Weights & Biases; ``WANDB_MODE=offline`` keeps everything on this machine.

    Args:
        project: The project there.

    Raises:
        MissingExtraError: wandb is not installed.
    """

    def __init__(self, project: str = "duotone") -> None:
        self._wandb = _tool("wandb", "wandb", "wandb")
        self._project = project
        self._open: Any = None

    def run_started(self, folder: RunFolder, plan: Plan, round: int) -> None:
        """Begin a run with the settings."""
        self._open = self._wandb.init(
            project=self._project, name=folder.path.name, config=flat_settings(plan.config)
        )

    def round_committed(self, progress: Progress) -> None:
        """Log the scores of an evaluated round; the last one ends the run."""
        if progress.evaluated:
            self._open.log(dict(progress.scores), step=progress.round)
        if progress.round == progress.rounds:
            self._open.finish()

    def message(self, line: str) -> None:
        """Nothing: warnings are in the run's log."""
