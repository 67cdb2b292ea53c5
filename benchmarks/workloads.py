"""What is measured: three workloads of the size federated learning papers use, by duotone.

The samples are made up (a coarse pattern per class under noise); only their shapes matter for
speed, and the pattern lets a loop that computes something else give itself away by its loss.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from duotone.data.dataset import Dataset
from duotone.federation.backends import Backend
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import federate
from duotone.federation.local_training import Loss, task_loss, train
from duotone.federation.method import Method
from duotone.federation.serving import Serving
from duotone.federation.settings import MethodSettings
from duotone.federation.store import FolderStore
from duotone.measures.evaluation import evaluate
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import cnn
from duotone.partition.partition import Holding, Partition, Population
from duotone.seeding import stream
from duotone.types import ClientData, ClientState, ClientUpdate, DataInfo, RoundInfo, ServerState

Turn: TypeAlias = dict[str, float]
"""What one turn of a contender measured."""
Turns: TypeAlias = Generator[Turn, None, None]

CLASSES = 10
REGISTERED = 100
TEST_SAMPLES = 100
WORKERS = 2
ENDLESS = 1_000_000


class Encoder(nn.Module):
    """Three convolutions and a linear layer to the mean and log-variance of a latent part."""

    def __init__(self, latent: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, 2 * latent),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance."""
        mean, log_variance = self.layers(x).chunk(2, dim=1)
        return mean, log_variance


class DualVAE(nn.Module):
    """Two encoders whose latent parts one decoder turns back into a 28×28 image."""

    def __init__(self, data: DataInfo, latent: int = 32) -> None:
        super().__init__()
        self.encoder1 = Encoder(latent)
        self.encoder2 = Encoder(latent)
        self.decoder = nn.Sequential(
            nn.Linear(2 * latent, 64 * 7 * 7),
            nn.ReLU(),
            nn.Unflatten(1, (64, 7, 7)),
            nn.ConvTranspose2d(64, 32, 3, stride=2, padding=1, output_padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 3, stride=2, padding=1, output_padding=1),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of the pixels, and the KL divergence summed over the batch."""
        codes: list[Tensor] = []
        divergence = torch.zeros(())
        for encoder in (self.encoder1, self.encoder2):
            mean, log_variance = encoder(x)
            codes.append(mean + torch.randn_like(mean) * (log_variance / 2).exp())
            terms = mean.square() + log_variance.exp() - log_variance - 1
            divergence = divergence + terms.sum() / 2
        return self.decoder(torch.cat(codes, dim=1)), divergence


def negative_elbo(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the binary cross-entropy of the pixels plus both KL terms, per sample."""
    logits, divergence = model(x)
    distortion = functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    loss: Tensor = (distortion + divergence) / len(x)
    return loss


class FederatedVAE(Method):
    """Share both encoders, keep the decoder."""

    name = "benchmark-vae"
    title = "shared encoders, local decoder"
    paper = "none: a workload"

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Keep the decoder on the client."""
        return not name.startswith("decoder.")

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train encoders and decoder together on the evidence lower bound."""
        model = self.load(self.personal(server, client), info.data)
        loss = train(model, data, self.config, info, loss=negative_elbo)
        shared, local = self.split(model)
        update = ClientUpdate(data.client, shared, len(data), metrics={"train_loss": loss})
        return update, ClientState(local)


class LocalHead(Method):
    """FedAvg whose last layer stays on the client, so that clients have a state to keep."""

    name = "benchmark-head"
    title = "shared features, local head"
    paper = "none: a workload"

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Keep the head on the client."""
        return not name.startswith("head.")


@dataclass(frozen=True, slots=True)
class Workload:
    """One thing to train.

    Attributes:
        title: What it is, for the table.
        image: Height, width and, for colour, channels.
        clients: How many clients train in a round.
        samples: Training samples of each.
        method: Trained with one local epoch per round, at a constant learning rate.
        loss: What the method minimises, for loops that are not duotone's.
    """

    title: str
    image: tuple[int, ...]
    clients: int
    samples: int
    method: Method
    loss: Loss

    def population(self) -> Population:
        """Make the samples up."""
        return make_population(self.image, self.clients, self.samples)


def workload(name: str, *, short: bool) -> Workload:
    """Return W1, W2 or W3; a short one has fewer samples, and everything else the same."""
    sgd = {"lr": 0.05, "lr_decay": 1.0, "epochs": 1}
    adam = {"optimizer": "adam", "lr": 1e-3, "lr_decay": 1.0, "epochs": 1}
    if name == "W1":
        settings = MethodSettings(batch_size=10, **sgd)
        method: Method = FedAvg(settings, cnn)
        title = "CNN 28×28×1, batch 10, SGD"
        return Workload(title, (28, 28), 10, 100 if short else 600, method, task_loss)
    if name == "W2":
        method = FedAvg(MethodSettings(batch_size=32, **sgd), cnn)
        title = "CNN 32×32×3, batch 32, SGD"
        return Workload(title, (32, 32, 3), 10, 96 if short else 600, method, task_loss)
    method = FederatedVAE(MethodSettings(batch_size=256, **adam), DualVAE)
    title = "dual VAE 28×28×1, batch 256, Adam"
    return Workload(title, (28, 28), 4, 256 if short else 600, method, negative_elbo)


def make_population(
    image: tuple[int, ...], clients: int, samples: int, test_samples: int = 0
) -> Population:
    """Make up images and deal them out evenly."""
    rng = stream(0, "benchmark")
    each = samples + test_samples
    x = rng.integers(0, 128, size=(clients * each, *image), dtype=np.uint8)
    y = rng.integers(CLASSES, size=len(x))
    height, width, *channels = image
    coarse = (CLASSES, height // 4, width // 4, *channels)
    patterns = rng.integers(0, 128, size=coarse, dtype=np.uint8).repeat(4, 1).repeat(4, 2)
    for label, pattern in enumerate(patterns):
        x[y == label] += pattern
    rows = np.arange(len(x)).reshape(clients, each)
    nothing = rows[0, :0]
    holdings = [
        Holding(f"c{number}", "all", "member", own[:samples], nothing, own[samples:])
        for number, own in enumerate(rows)
    ]
    dataset = Dataset("made-up", x, y, np.zeros(len(x), bool), CLASSES)
    return Population(dataset, Partition.from_holdings(holdings))


def registered_population(work: Workload) -> Population:
    """Make up the clients of a whole run, of whom only a few train in a round."""
    return make_population(work.image, REGISTERED, work.samples, TEST_SAMPLES)


def duotone_rounds(name: str, short: bool, parallel: bool) -> Turns:
    """Yield the seconds and the loss of one training round after the other."""
    work = workload(name, short=short)
    population = work.population()
    backend: Backend = Serial(work.method, population)
    if parallel:
        backend = Processes(work.method, population, WORKERS)
        backend.is_ready(patience=None)
    with backend:
        rounds = federate(work.method, population, rounds=ENDLESS, backend=backend)
        while True:
            begin = perf_counter()
            result = next(rounds)
            seconds = perf_counter() - begin
            losses = [update.metrics["train_loss"] for update in result.updates]
            yield {"seconds": seconds, "loss": sum(losses) / len(losses)}


def duotone_whole_rounds(short: bool) -> Turns:
    """Yield the seconds of training some clients, evaluating all, and saving the round."""
    work = workload("W1", short=short)
    population = registered_population(work)
    with (
        tempfile.TemporaryDirectory() as folder,
        Processes(work.method, population, WORKERS) as backend,
    ):
        backend.is_ready(patience=None)
        store = FolderStore(Path(folder))
        clients = population.partition.clients
        rounds = federate(
            work.method,
            population,
            rounds=ENDLESS,
            sampled=work.clients,
            backend=backend,
            states=store,
        )
        while True:
            begin = perf_counter()
            result = next(rounds)
            trained = perf_counter()
            serving = Serving(result.server, result.info, "zero-shot")
            rows = evaluate(serving, clients, population, store, backend)
            evaluated = perf_counter()
            store.commit(result.info.round, result.server, {})
            saved = perf_counter()
            accuracy = [row.value for row in rows if row.metric == "accuracy"]
            yield {
                "train": trained - begin,
                "evaluate": evaluated - trained,
                "save": saved - evaluated,
                "accuracy": sum(accuracy) / len(accuracy),
            }


def step_flops(work: Workload) -> float:
    """Return the floating-point operations of one sample, forward and backward."""
    count = work.method.config.batch_size
    height, width, *channels = work.image
    x = torch.rand(count, channels[0] if channels else 1, height, width)
    y = torch.zeros(count, dtype=torch.int64)
    model = work.method.build(DataInfo(tuple(x.shape[1:]), "classes", CLASSES))
    with FlopCounterMode(display=False) as counter:
        work.loss(model, x, y).backward()  # type: ignore[no-untyped-call]
    return float(counter.get_total_flops()) / count


def convolution_peak() -> Turns:
    """Yield, again and again, the best GFLOP/s of a 3×3 convolution on one thread."""
    torch.set_num_threads(1)
    sizes = [(10, 32, 64, 14), (32, 32, 64, 16), (32, 64, 64, 28), (16, 128, 128, 28)]
    cases: list[tuple[Tensor, Tensor, int]] = []
    for batch, inputs, outputs, side in sizes:
        flops = 2 * batch * outputs * side * side * inputs * 9
        for layout in (torch.contiguous_format, torch.channels_last):
            x = torch.rand(batch, inputs, side, side).to(memory_format=layout)
            weight = torch.rand(outputs, inputs, 3, 3).to(memory_format=layout)
            cases.append((x, weight, flops))
    while True:
        best = 0.0
        for x, weight, flops in cases:
            functional.conv2d(x, weight, padding=1)
            ends = perf_counter() + 0.1
            while (begin := perf_counter()) < ends:
                functional.conv2d(x, weight, padding=1)
                best = max(best, flops / (perf_counter() - begin))
        yield {"gflops": best / 1e9}
