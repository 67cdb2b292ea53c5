"""Clients that take their style off their own samples, and put it on those of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.params import stored
from duotone.federation.protocols import Decodes, Restyles
from duotone.federation.serving import Serving
from duotone.measures.decoding import Codes, decode_codes
from duotone.measures.measure import Scene
from duotone.networks.reading import in_batches
from duotone.partition.partition import Population
from duotone.seeding import derive
from duotone.types import Params, Role, Split

SAMPLES = 100
"""Test samples of each client that are re-styled and judged."""
_STYLES = 200


@travels
@dataclass(frozen=True, slots=True)
class Stylist:
    """A client that takes its style off its own samples, and puts it on others'.

    Attributes:
        client: Its name.
        role: Member or newcomer.
        params: Its model.
        content: By split, what is left of its samples.
        styles: Local codes of its training samples, if the method puts styles on by decoding.
    """

    client: str
    role: Role
    params: Params
    content: Mapping[Split, Tensor]
    styles: Codes | None


@travels
@dataclass(frozen=True, slots=True)
class TakeOffJob:
    """Take a client's style off its first samples, and hand over what its style is put on with.

    Attributes:
        serving: How the client gets its model.
        counts: How many samples of each split.
        seed: Of every random draw.
        redrawn: Whether no stroke of the samples may be left.
    """

    level: ClassVar[Level] = "simulation"
    sends: ClassVar[str] = "model and samples"

    serving: Serving
    counts: Mapping[Split, int]
    seed: int
    redrawn: bool

    def __call__(self, method: Method, population: Population, task: ClientTask) -> Stylist:
        """Return the client as a stylist."""
        model = self.serving.model(method, population, task)
        client = task.client
        parts = {
            split: population.data(client, split).first(count).x
            for split, count in self.counts.items()
        }
        x = torch.cat([*parts.values()])
        content = taken_off(method, model, x, self.seed, client, redrawn=self.redrawn)
        split_up = torch.split(content, [len(x) for x in parts.values()])
        return Stylist(
            client,
            population.partition[client].role,
            {name: stored(tensor) for name, tensor in model.state_dict().items()},
            dict(zip(parts, split_up, strict=True)),
            own_styles(method, model, population.data(client).first(_STYLES).x),
        )


def restyles(method: Method) -> bool:
    """Say whether a method can draw one client's samples as another would have them."""
    return isinstance(method, Restyles | Decodes)


@torch.no_grad()
def taken_off(
    method: Method, model: nn.Module, x: Tensor, seed: int, client: str, *, redrawn: bool
) -> Tensor:
    """Return what is left of a client's samples without its style.

    Args:
        method: What was trained.
        model: The client's.
        x: The samples.
        seed: Of every random draw.
        client: Whose samples they are.
        redrawn: Whether no stroke of the samples may be left; codes have none.
    """
    if isinstance(method, Restyles):
        generator = torch.Generator().manual_seed(derive(seed, "restyle", "take-off", client))
        return method.take_off(model, x.to(method.device), generator, redrawn=redrawn).cpu()
    return in_batches(lambda part: method.encode(model, part.to(method.device)).shared.cpu(), x)


@torch.no_grad()
def own_styles(method: Method, model: nn.Module, x: Tensor) -> Codes | None:
    """Return local codes of a client's samples, if its style is put on by decoding them."""
    if isinstance(method, Restyles):
        return None
    local = in_batches(lambda part: method.encode(model, part.to(method.device)).local.cpu(), x)
    codes: Codes = local.numpy()
    return codes


@torch.no_grad()
def put_on(
    method: Method,
    model: nn.Module,
    content: Tensor,
    styles: Codes | None,
    seed: int,
    *names: str,
) -> Tensor:
    """Return samples of some content in a client's style.

    Args:
        method: What was trained.
        model: The client's.
        content: From :func:`taken_off`, of any client.
        styles: From :func:`own_styles`, of this client.
        seed: Of the choice of styles.
        names: Of the random stream: whose content it is, and what for.
    """
    generator = torch.Generator().manual_seed(derive(seed, "restyle", "put-on", *names))
    if isinstance(method, Restyles):
        return method.put_on(model, content.to(method.device), generator).float().cpu()
    assert isinstance(method, Decodes)
    assert styles is not None
    rows = torch.randint(len(styles), (len(content),), generator=generator).numpy()
    return decode_codes(method, model, content.numpy(), styles[rows])


def find_stylists(
    scene: Scene,
    chosen: Sequence[str],
    *,
    shown: int,
    tested: int = SAMPLES,
    redrawn: bool = False,
) -> list[Stylist]:
    """Let some clients take their styles off.

    Args:
        scene: The trained federation.
        chosen: The clients.
        shown: Training samples of each, for the informed attacker.
        tested: Test samples of each, to be judged.
        redrawn: Whether no stroke of the samples may be left.
    """
    job = TakeOffJob(scene.serving, {"train": shown, "test": tested}, scene.seed, redrawn)
    return list(scene.ask(job, chosen).values())


def drawn_as(
    method: Method, model: nn.Module, source: Stylist, target: Stylist, split: Split, seed: int
) -> Tensor:
    """Return a client's samples as another would have them.

    Args:
        method: What was trained.
        model: The target's.
        source: Whose samples.
        target: Whose style.
        split: Which samples.
        seed: Of the choice of styles.
    """
    names = (source.client, target.client, split)
    return put_on(method, model, source.content[split], target.styles, seed, *names)


def originals_of(stylist: Stylist, population: Population, split: Split) -> Tensor:
    """Return the samples that a client took its style off."""
    return population.data(stylist.client, split).first(len(stylist.content[split])).x
