"""One run as the explorer holds it: opened once, its models kept, its folder only read."""

from __future__ import annotations

import io
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TypeVar

from PIL import Image
from torch import Tensor

from duotone.data.dataset import Array
from duotone.data.folders import opened_pixels
from duotone.errors import ConfigError, DataError, DuotoneError, RunError
from duotone.explain import Federation
from duotone.explorer.asked_of import AskedSample
from duotone.partition.partition import Population, Rows, network_inputs
from duotone.runs import Run
from duotone.runs.client import Client
from duotone.runs.opened import OpenedRun
from duotone.types import ClientData

MOST_BYTES = 8 * 2**20
"""An image that is dropped onto the page."""
_MOST_UPLOADS = 20
_MOST_KEPT = 500
Made = TypeVar("Made")


class Explored:
    """A run that is looked at.

    Networks are not safe to use from two threads at once. There are three sets of them, so that a
    slider need not wait for a card: ``quick``, ``thorough`` and ``explaining``, each used by one
    thread at a time.

    Args:
        run: The run.
        name: What the page calls it.
    """

    def __init__(self, run: Run, name: str) -> None:
        self.run = run
        self.name = name
        self._loading = threading.Lock()
        self._no_data: str | None = None
        self._uploads: OrderedDict[str, Tensor] = OrderedDict()
        self._kept: OrderedDict[Hashable, object] = OrderedDict()

    def check_there(self) -> None:
        """Make sure that the run is still where it was.

        Raises:
            RunError: Somebody has deleted or moved it.
        """
        if not (self.run.path / "run.json").is_file():
            raise RunError(
                f"{self.run.path} was deleted or moved while it was shown; start the explorer "
                "again with where it is now."
            )

    @cached_property
    def quick(self) -> Federation:
        """Models for answers that a slider waits for."""
        return Federation(OpenedRun(self.run))

    @cached_property
    def _thorough(self) -> Federation:
        return Federation(OpenedRun(self.run))

    @property
    def thorough(self) -> Federation:
        """Models for everything that takes longer."""
        self.has_data()  # loaded under a lock; explanations would load it without
        return self._thorough

    @cached_property
    def explaining(self) -> Federation:
        """Models for cards, which may take many seconds."""
        opened = OpenedRun(self.run)
        if opened.index is not None and self.has_data():  # else the method is part of the plan
            opened.plan = self._thorough.opened.plan
        return Federation(opened)

    def client(self, name: str) -> Client:
        """Return a client of the quick set.

        Raises:
            UnknownNameError: There is none of that name.
        """
        return self.quick.client(name)

    @property
    def names(self) -> list[str]:
        """All clients."""
        return list(self.quick.opened.clients)

    def population(self) -> Population:
        """Return the samples of all clients.

        Raises:
            RunError: They are not at hand.
        """
        with self._loading:
            if self._no_data is None:
                try:
                    return self._thorough.opened.plan.population
                except DuotoneError as error:
                    self._no_data = f"The samples of this run are not at hand. {error}"
            raise RunError(self._no_data)

    def has_data(self) -> bool:
        """Say whether the samples are at hand."""
        try:
            self.population()
        except DuotoneError:
            return False
        return True

    def test_rows(self, name: str) -> Rows:
        """Return which samples of the data set are a client's test samples.

        Raises:
            RunError: They are not at hand.
            ConfigError: It has none.
        """
        population = self.population()
        if name not in population.partition or not population.partition.size(name, "test"):
            raise ConfigError(f"Client {name!r} has no test samples in the run.")
        return population.rows(name, "test")

    def samples_at(self, rows: Rows) -> Tensor:
        """Return some samples of the data set, as a network sees them."""
        return network_inputs(self.population().dataset.x[rows])

    def test_samples(self, name: str) -> ClientData:
        """Return all test samples of a client.

        Raises:
            RunError: They are not at hand.
            ConfigError: It has none.
        """
        self.test_rows(name)
        return self.population().data(name, "test")

    def inputs(self, asked: AskedSample) -> Tensor:
        """Return the sample that is asked about, as a network sees it.

        Raises:
            ConfigError: There is no such sample.
            RunError: The samples are not at hand.
        """
        if asked.upload is not None:
            found = self._uploads.get(asked.upload)
            if found is None:
                raise ConfigError("The explorer no longer has this image; drop it again.")
            return found
        rows = self.test_rows(asked.owner)
        if asked.sample >= len(rows):
            raise ConfigError(
                f"Client {asked.owner!r} has test samples 0 to {len(rows) - 1}. Got {asked.sample}."
            )
        return self.samples_at(rows[asked.sample : asked.sample + 1])

    def keep_upload(self, content: bytes) -> str:
        """Read an image of the user's own and keep it in memory; return its name.

        Raises:
            DataError: It is no image that can be read, or the run's data are no images.
        """
        pixels = _pixels(content)
        client = self.client(self.names[0])
        inputs = client.inputs(Image.fromarray(pixels))
        name = secrets.token_urlsafe(8)
        self._uploads[name] = inputs
        while len(self._uploads) > _MOST_UPLOADS:
            self._uploads.popitem(last=False)
        return name

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what was made under a key before, or make it now."""
        if key not in self._kept:
            self._kept[key] = make()
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        found: Made = self._kept[key]  # type: ignore[assignment]
        return found


def _pixels(content: bytes) -> Array:
    if len(content) > MOST_BYTES:
        raise DataError(f"The image has more than {MOST_BYTES // 2**20} MB; make it smaller.")
    return opened_pixels(io.BytesIO(content), "The image")
