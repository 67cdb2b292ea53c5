"""Personalised federated learning, printed in two inks: what is shared, and what is local.

    import duotone

    run = duotone.run(method="fedavg", data="digits", rounds=10)
    run.summary["scores"]["member.accuracy"]

Everything public has one name here, and the same object behind it at any time. Names are imported
when they are first used, so that ``import duotone`` costs nothing. What can be chosen by name is
in ``METHODS``, ``MODELS``, ``DATASETS`` and ``SCHEMES`` (partitions); ``duotone.methods`` is the
package with the methods' code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duotone.methods as methods
    from duotone.data import DATASETS, load_dataset
    from duotone.data.dataset import Dataset
    from duotone.errors import (
        CheckpointError,
        ClientError,
        ConfigError,
        DataError,
        DuotoneError,
        MissingExtraError,
        NewcomerError,
        PartitionError,
        RunError,
        TrainingError,
        UnknownNameError,
    )
    from duotone.federation.engine import (
        ClientStates,
        MemoryStates,
        RoundResult,
        Start,
        StateStore,
        federate,
    )
    from duotone.federation.method import Method
    from duotone.federation.protocols import (
        Collects,
        Decodes,
        ExchangesCodes,
        FindsConcepts,
        Generates,
        Restyles,
    )
    from duotone.federation.settings import MethodSettings
    from duotone.methods import METHODS
    from duotone.networks import MODELS
    from duotone.networks.pretrained import pretrained
    from duotone.partition import SCHEMES, Holding, Partition, Population, build_partition
    from duotone.registry import allow_code
    from duotone.runs import Interrupted, Progress, Run, RunObserver, load_run, resume, run
    from duotone.runs.align import align
    from duotone.runs.client import Client
    from duotone.runs.compare import compare
    from duotone.runs.export import load_client
    from duotone.runs.generate import generate
    from duotone.runs.restyle import anonymise, restyle
    from duotone.runs.study import RunEnded, Study, StudyObserver
    from duotone.runs.study import run_study as study
    from duotone.runs.track import Logging, MLflow, TensorBoard, WandB
    from duotone.types import (
        NO_LABEL,
        ClientData,
        ClientState,
        ClientUpdate,
        DataInfo,
        Draws,
        Form,
        Latents,
        Params,
        RoundInfo,
        ServerState,
    )

_WHERE = {
    "CheckpointError": "duotone.errors:CheckpointError",
    "Client": "duotone.runs.client:Client",
    "ClientData": "duotone.types:ClientData",
    "ClientError": "duotone.errors:ClientError",
    "ClientState": "duotone.types:ClientState",
    "ClientStates": "duotone.federation.engine:ClientStates",
    "ClientUpdate": "duotone.types:ClientUpdate",
    "Collects": "duotone.federation.protocols:Collects",
    "ConfigError": "duotone.errors:ConfigError",
    "DATASETS": "duotone.data:DATASETS",
    "DataError": "duotone.errors:DataError",
    "DataInfo": "duotone.types:DataInfo",
    "Dataset": "duotone.data.dataset:Dataset",
    "Decodes": "duotone.federation.protocols:Decodes",
    "Draws": "duotone.types:Draws",
    "DuotoneError": "duotone.errors:DuotoneError",
    "ExchangesCodes": "duotone.federation.protocols:ExchangesCodes",
    "FindsConcepts": "duotone.federation.protocols:FindsConcepts",
    "Form": "duotone.types:Form",
    "Generates": "duotone.federation.protocols:Generates",
    "Holding": "duotone.partition:Holding",
    "Interrupted": "duotone.runs:Interrupted",
    "Latents": "duotone.types:Latents",
    "Logging": "duotone.runs.track:Logging",
    "METHODS": "duotone.methods:METHODS",
    "MLflow": "duotone.runs.track:MLflow",
    "MODELS": "duotone.networks:MODELS",
    "MemoryStates": "duotone.federation.engine:MemoryStates",
    "Method": "duotone.federation.method:Method",
    "MethodSettings": "duotone.federation.settings:MethodSettings",
    "MissingExtraError": "duotone.errors:MissingExtraError",
    "NO_LABEL": "duotone.types:NO_LABEL",
    "NewcomerError": "duotone.errors:NewcomerError",
    "Params": "duotone.types:Params",
    "Partition": "duotone.partition:Partition",
    "PartitionError": "duotone.errors:PartitionError",
    "Population": "duotone.partition:Population",
    "Progress": "duotone.runs:Progress",
    "Restyles": "duotone.federation.protocols:Restyles",
    "RoundInfo": "duotone.types:RoundInfo",
    "RoundResult": "duotone.federation.engine:RoundResult",
    "Run": "duotone.runs:Run",
    "RunEnded": "duotone.runs.study:RunEnded",
    "RunError": "duotone.errors:RunError",
    "RunObserver": "duotone.runs:RunObserver",
    "SCHEMES": "duotone.partition:SCHEMES",
    "ServerState": "duotone.types:ServerState",
    "Start": "duotone.federation.engine:Start",
    "StateStore": "duotone.federation.engine:StateStore",
    "Study": "duotone.runs.study:Study",
    "StudyObserver": "duotone.runs.study:StudyObserver",
    "TensorBoard": "duotone.runs.track:TensorBoard",
    "TrainingError": "duotone.errors:TrainingError",
    "UnknownNameError": "duotone.errors:UnknownNameError",
    "WandB": "duotone.runs.track:WandB",
    "align": "duotone.runs.align:align",
    "allow_code": "duotone.registry:allow_code",
    "anonymise": "duotone.runs.restyle:anonymise",
    "build_partition": "duotone.partition:build_partition",
    "compare": "duotone.runs.compare:compare",
    "federate": "duotone.federation.engine:federate",
    "generate": "duotone.runs.generate:generate",
    "load_client": "duotone.runs.export:load_client",
    "load_dataset": "duotone.data:load_dataset",
    "load_run": "duotone.runs:load_run",
    "methods": "duotone.methods",
    "pretrained": "duotone.networks.pretrained:pretrained",
    "restyle": "duotone.runs.restyle:restyle",
    "resume": "duotone.runs:resume",
    "run": "duotone.runs:run",
    "study": "duotone.runs.study:run_study",
}

__all__ = [
    "DATASETS",
    "METHODS",
    "MODELS",
    "NO_LABEL",
    "SCHEMES",
    "CheckpointError",
    "Client",
    "ClientData",
    "ClientError",
    "ClientState",
    "ClientStates",
    "ClientUpdate",
    "Collects",
    "ConfigError",
    "DataError",
    "DataInfo",
    "Dataset",
    "Decodes",
    "Draws",
    "DuotoneError",
    "ExchangesCodes",
    "FindsConcepts",
    "Form",
    "Generates",
    "Holding",
    "Interrupted",
    "Latents",
    "Logging",
    "MLflow",
    "MemoryStates",
    "Method",
    "MethodSettings",
    "MissingExtraError",
    "NewcomerError",
    "Params",
    "Partition",
    "PartitionError",
    "Population",
    "Progress",
    "Restyles",
    "RoundInfo",
    "RoundResult",
    "Run",
    "RunEnded",
    "RunError",
    "RunObserver",
    "ServerState",
    "Start",
    "StateStore",
    "Study",
    "StudyObserver",
    "TensorBoard",
    "TrainingError",
    "UnknownNameError",
    "WandB",
    "align",
    "allow_code",
    "anonymise",
    "build_partition",
    "compare",
    "federate",
    "generate",
    "load_client",
    "load_dataset",
    "load_run",
    "methods",
    "pretrained",
    "restyle",
    "resume",
    "run",
    "study",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("duotone")
    if name not in _WHERE:
        raise AttributeError(f"module 'duotone' has no attribute {name!r}")
    from duotone.registry import import_object

    return import_object(_WHERE[name])


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
