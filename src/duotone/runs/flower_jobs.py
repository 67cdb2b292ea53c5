"""What server and nodes of a Flower federation agree on: the words of a run, and enrolment."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.screening import Refused
from duotone.partition.partition import SPLITS, Population
from duotone.partition.scheme import MOST
from duotone.types import DataInfo, Split

_LOG = logging.getLogger("duotone.node")


@dataclass(frozen=True, slots=True)
class RunWords:
    """What a node must know of a run; goes with every message.

    Attributes:
        run: The run's own name, for the node's states.
        method: The method's name and settings.
        model: The network's name, as the method's settings want it.
        seed: Of every random draw.
        labels: Training samples with a label; all, if not given.
        partition: How a client's samples are split.
        newcomers: Clients that do not train.
        data: The form of all clients' data, once everybody is enrolled.
    """

    run: str
    method: Mapping[str, Any]
    model: str | None
    seed: int
    labels: int | None
    partition: Mapping[str, Any]
    newcomers: tuple[str, ...] = ()
    data: DataInfo | None = None

    def text(self) -> str:
        """Return it as it goes with a message."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> RunWords:
        """Return what :meth:`text` made a text of."""
        content = json.loads(text)
        data = content.pop("data")
        form = None if data is None else DataInfo(**{**data, "shape": tuple(data["shape"])})
        newcomers = tuple(content.pop("newcomers"))
        return cls(**content, newcomers=newcomers, data=form)


@travels
@dataclass(frozen=True, slots=True)
class EnrolJob:
    """Ask a client how many samples it has, and of which form."""

    level: ClassVar[Level] = "scores"
    sends: ClassVar[str] = "sizes"

    def __call__(
        self, method: Method, population: Population, task: ClientTask
    ) -> tuple[dict[Split, int], DataInfo]:
        """Return the sizes of the splits, and the form."""
        sizes = {split: population.partition.size(task.client, split) for split in SPLITS}
        return sizes, population.info

    def screened(
        self, answer: Any, client: str, population: Population | None
    ) -> tuple[dict[Split, int], DataInfo]:
        """Return sizes and form, if they are some.

        Raises:
            Refused: They are not, or are more than a file may hold.
        """
        sizes, form = answer
        if set(sizes) != set(SPLITS) or not isinstance(form, DataInfo):
            raise Refused("it did not tell how many samples it has, and of which form")
        told = [*sizes.values(), *form.shape, form.outputs]
        if any(type(number) is not int or not 0 <= number <= MOST for number in told):
            raise Refused(f"it counts its samples or classes with something else than 0 to {MOST}")
        return sizes, form


@travels
@dataclass(frozen=True, slots=True)
class TellJob:
    """Say a line at a client's node."""

    level: ClassVar[Level] = "scores"
    sends: ClassVar[str] = "receipt"

    line: str

    def __call__(self, method: Method, population: Population, task: ClientTask) -> bool:
        """Say it where the node's log is."""
        _LOG.warning("The server says: %s", self.line)
        return True
