"""The loop to compare with: one process, one ``nn.Module`` and one DataLoader per client.

This is how research code for personalised federated learning is commonly written. It is given every
advantage that does not change its nature: samples are tensors in memory before the clock starts,
the network is the same, nothing is logged.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from duotone.federation.engine import before_first_round
from duotone.measures.metrics import classification_metrics
from duotone.partition.partition import Population
from duotone.seeding import derive
from duotone.types import Split
from workloads import REGISTERED, TEST_SAMPLES, Turns, Workload, registered_population, workload


class DataLoaderLoop:
    """FedAvg of the shared tensors over clients that each have a model of their own.

    Args:
        work: What is trained.
        population: The samples.
        layout: How models lie in memory; research code hardly ever asks for channels last.
    """

    def __init__(
        self,
        work: Workload,
        population: Population,
        layout: torch.memory_format = torch.contiguous_format,
    ) -> None:
        self.work = work
        self.settings = work.method.config
        model = work.method.build(population.info)
        # The very weights duotone starts from, so that the losses can be compared.
        before = before_first_round(population, rounds=1, sampled=None, seed=0)
        self.server, local = work.method.initial(before)
        model.load_state_dict({**self.server, **local})
        model.to(memory_format=layout)
        clients = population.partition.clients
        self.models = {client: copy.deepcopy(model) for client in clients}
        self.train = {client: samples(population, client, "train") for client in clients}
        self.test = {client: samples(population, client, "test") for client in clients}

    def train_round(self, clients: Sequence[str]) -> float:
        """Train some clients, average what is shared, and return the mean training loss."""
        total = 0.0
        for client in clients:
            model = self.models[client]
            model.load_state_dict(self.server, strict=False)
            total += self._train(model, self.train[client])
        weights = [len(self.train[client]) for client in clients]
        states = [self.models[client].state_dict() for client in clients]
        for name in self.server:
            parts = zip(weights, states, strict=True)
            self.server[name] = sum(n * state[name] for n, state in parts) / sum(weights)
        return total / len(clients)

    def _train(self, model: nn.Module, data: TensorDataset) -> float:
        kind = torch.optim.Adam if self.settings.optimizer == "adam" else torch.optim.SGD
        optimizer = kind(model.parameters(), lr=self.settings.lr)
        batches = DataLoader(data, batch_size=self.settings.batch_size, shuffle=True)
        total = torch.zeros(())
        model.train()
        for _ in range(self.settings.epochs):
            total.zero_()
            for x, y in batches:
                loss = self.work.loss(model, x, y)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total += loss.detach() * len(x)
        return float(total) / len(data)

    @torch.no_grad()
    def evaluate(self, batch_size: int) -> float:
        """Score every client on its own test samples and return the mean accuracy."""
        accuracy = 0.0
        for client, data in self.test.items():
            model = self.models[client]
            model.load_state_dict(self.server, strict=False)
            model.eval()
            outputs: list[Tensor] = []
            labels: list[Tensor] = []
            for x, y in DataLoader(data, batch_size=batch_size):
                outputs.append(model(x))
                labels.append(y)
            scores = torch.cat(outputs).double().numpy()
            accuracy += classification_metrics(torch.cat(labels).numpy(), scores)["accuracy"]
        return accuracy / len(self.test)


def samples(population: Population, client: str, split: Split) -> TensorDataset:
    """Return a client's samples as a DataLoader wants them, channels first in memory."""
    data = population.data(client, split)
    return TensorDataset(data.x.contiguous(), data.labels)


def train_rounds(name: str, short: bool, threads: int | None) -> Turns:
    """Yield the seconds and the loss of one training round after the other.

    ``threads`` is how many torch may use; as many as it likes if ``None``.
    """
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(derive(0, "benchmark"))
    work = workload(name, short=short)
    loop = DataLoaderLoop(work, work.population())
    while True:
        begin = perf_counter()
        loss = loop.train_round(list(loop.train))
        yield {"seconds": perf_counter() - begin, "loss": loss}


def whole_rounds(short: bool, threads: int | None) -> Turns:
    """Yield the seconds of training some clients and of evaluating all, at two batch sizes."""
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(derive(0, "benchmark"))
    work = workload("W1", short=short)
    loop = DataLoaderLoop(work, registered_population(work))
    names = list(loop.train)
    first = 0
    while True:
        begin = perf_counter()
        loop.train_round([names[(first + step) % REGISTERED] for step in range(work.clients)])
        trained = perf_counter()
        loop.evaluate(work.method.config.batch_size)
        evaluated = perf_counter()
        accuracy = loop.evaluate(TEST_SAMPLES)
        yield {
            "train": trained - begin,
            "evaluate": evaluated - trained,
            "evaluate_large_batches": perf_counter() - evaluated,
            "accuracy": accuracy,
        }
        first += work.clients
