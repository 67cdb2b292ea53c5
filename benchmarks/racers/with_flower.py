"""Flower's simulation engine: message API, FedAvg strategy, Ray actors with one thread each."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import course
from course import CLIENTS, SAMPLED, Clock, options

GIVEN = options()
client = ClientApp()
server = ServerApp()


def answer(message: Message, **records: ArrayRecord | MetricRecord) -> Message:
    """Return a reply."""
    return Message(content=RecordDict(records), reply_to=message)


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train the model that was sent."""
    torch.set_num_threads(1)
    samples = course.read(GIVEN.course)
    number = int(context.node_config["partition-id"])
    model = samples.network(GIVEN.layout)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    course.train(model, samples.x_train[number], samples.y_train[number])
    size = MetricRecord({"num-examples": samples.y_train.shape[1]})
    return answer(message, arrays=ArrayRecord(model.state_dict()), metrics=size)


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Score the model that was sent."""
    torch.set_num_threads(1)
    samples = course.read(GIVEN.course)
    number = int(context.node_config["partition-id"])
    model = samples.network(GIVEN.layout)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loss, accuracy = course.score(model, samples.x_test[number], samples.y_test[number])
    size = samples.y_test.shape[1]
    found = MetricRecord({"loss": loss, "accuracy": accuracy, "num-examples": size})
    return answer(message, metrics=found)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds; Flower calls the clock before the first and after each."""
    samples = course.read(GIVEN.course)
    clock = Clock(samples, "flwr", "ray")

    strategy = FedAvg(fraction_train=SAMPLED / CLIENTS, min_available_nodes=CLIENTS)

    def lap(round: int, arrays: ArrayRecord) -> None:
        clock.lap(arrays.to_torch_state_dict())
        strategy.fraction_evaluate = float(clock.evaluates)

    weights = ArrayRecord(samples.weights)
    strategy.start(grid, weights, num_rounds=GIVEN.rounds, evaluate_fn=lap)


if __name__ == "__main__":
    run_simulation(
        server,
        client,
        num_supernodes=CLIENTS,
        backend_config={
            "init_args": {"address": "local", "num_cpus": GIVEN.workers},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
