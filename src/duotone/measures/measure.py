"""What a measure is: one question asked of a trained federation, and how its answer is shown.

A measure is one file. It says whether it applies, measures, and turns what a run folder holds of it
into a section of the report::

    class Sizes(Measure):
        name = "sizes"

        def measure(self, scene):
            sizes = [len(scene.population.data(client)) for client in scene.clients]
            return Findings({Key("sizes", "mean"): Score.over(sizes, "reference", "count")})

        def section(self, record):
            ...

Register it in ``measures/__init__.py``, or from another package by the entry point group
``duotone.measures``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from duotone.config import RunConfig
from duotone.data.dataset import Array
from duotone.federation.backends import Backend, ClientJob
from duotone.federation.engine import ClientStates
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.serving import Serving, by_client
from duotone.measures.metrics import headline
from duotone.measures.panels import Picture, Section, StoredPicture
from duotone.measures.score import Key, Score, Scores
from duotone.measures.sheet import Sheet
from duotone.measures.side_by_side import Piece, side_by_side
from duotone.partition.partition import Population
from duotone.types import Role

if TYPE_CHECKING:  # workers read no tables
    import polars as pl

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tidy table that everything downstream reads."""

    round: int
    client: str
    group: str
    role: Role
    part: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Findings:
    """What a measure found.

    Attributes:
        scores: For the summary.
        rows: For the tidy table.
        table: Details, kept as ``FILE.json`` in the run folder, with ``file`` of the measure.
        arrays: Codes of samples, kept as ``latents.npz``.
        sheets: Pictures, kept in ``figures``.
    """

    scores: Scores = field(default_factory=dict)
    rows: Sequence[Row] = ()
    table: Mapping[str, Any] | None = None
    arrays: Mapping[str, Array] | None = None
    sheets: Sequence[Sheet] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """A trained federation, as measures see it.

    Attributes:
        method: What was trained.
        population: Every client's samples.
        serving: How clients get their models.
        clients: Those that were evaluated.
        states: Where client states are kept.
        backend: Where clients are computed.
        config: The settings of the run.
        metrics: The tidy table of what was measured round by round.
        refused: Of members that were refused: how often, when and why the last time.
    """

    method: Method
    population: Population
    serving: Serving
    clients: Sequence[str]
    states: ClientStates
    backend: Backend
    config: RunConfig
    metrics: pl.DataFrame
    refused: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    _made: dict[Any, Any] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.serving.info.seed

    def ask(self, job: ClientJob, clients: Sequence[str] | None = None) -> dict[str, Any]:
        """Do a job for some clients, by default all; return what each gave, in their order."""
        chosen = self.clients if clients is None else clients
        return by_client(job, chosen, self.population, self.states, self.backend)

    def once(self, make: Callable[[Scene], Made]) -> Made:
        """Return what a function makes of this scene; several measures may need it."""
        if make not in self._made:
            self._made[make] = make(self)
        found: Made = self._made[make]
        return found

    def prepare(self, wanted: Sequence[InPieces[Any]]) -> None:
        """Make several things at once that will be asked for by :meth:`once`, side by side."""
        courses: dict[InPieces[Any], Course[Any]] = {}
        waiting = list(wanted)
        while waiting:
            make = waiting.pop(0)
            if make not in self._made and make not in courses:
                courses[make] = make.course(self)
                waiting += courses[make].after
        # Every course's longest piece before anybody's second one, so that none is begun last.
        places = [(turn, make) for make in courses for turn in range(len(courses[make].pieces))]
        order = sorted(places, key=lambda place: place[0])
        pieces = [courses[make].pieces[turn] for turn, make in order]
        given = side_by_side(self.backend, self.method, self.population, pieces)
        done: dict[InPieces[Any], list[Any]] = {make: [] for make in courses}
        for (_, make), value in zip(order, given, strict=True):
            done[make].append(value)

        def finish(make: InPieces[Any]) -> None:
            """Put a thing together, after what it is made of."""
            if make not in self._made:
                for other in courses[make].after:
                    finish(other)
                self._made[make] = courses[make].whole(done[make])

        for make in courses:
            finish(make)

    def last(self, role: Role, metric: str | None = None) -> list[Row]:
        """Return what clients of a role reached in the last round, by default by the headline."""
        import polars as pl

        wanted = metric or headline(self.metrics["metric"])
        rows = self.metrics.filter(
            (pl.col("round") == self.serving.info.round)
            & (pl.col("kind") == role)
            & (pl.col("metric") == wanted)
        )
        return [Row(*values) for values in rows.iter_rows()]

    def rows(self, scores: Scores) -> list[Row]:
        """Return scores over many clients as rows; they belong to no single one."""
        number = self.serving.info.round
        return [
            Row(number, "", "", key.role, key.part, str(key), score.value)
            for key, score in scores.items()
        ]


@dataclass(frozen=True, slots=True)
class Course(Generic[Made]):
    """How something is made: of pieces of work that other processes may do.

    Attributes:
        pieces: The work, the longest first.
        whole: Makes the thing of what the pieces gave.
        after: What else it asks the scene for.
    """

    pieces: Sequence[Piece]
    whole: Callable[[Sequence[Any]], Made]
    after: Sequence[InPieces[Any]] = ()


class InPieces(Generic[Made]):
    """Something several measures need, for :meth:`Scene.once`, that is made in pieces.

    Args:
        course: Says how it is made of a scene.
    """

    def __init__(self, course: Callable[[Scene], Course[Made]]) -> None:
        self.course = course
        self.__doc__ = course.__doc__

    def __call__(self, scene: Scene) -> Made:
        """Return the thing; its own pieces are done side by side."""
        course = self.course(scene)
        return course.whole(
            side_by_side(scene.backend, scene.method, scene.population, course.pieces)
        )


@dataclass(frozen=True, slots=True)
class Record:
    """What the folder of a finished run says.

    Attributes:
        config: Its resolved configuration.
        facts: The content of ``run.json``.
        metrics: The tidy table.
        summary: The content of ``summary.json``.
        scores: Those of the summary.
        latents: The codes, or ``None`` if none were kept.
        tables: Details that measures left, by file.
        pictures: The pictures that measures left.
    """

    config: RunConfig
    facts: Mapping[str, Any]
    metrics: pl.DataFrame
    summary: Mapping[str, Any]
    scores: Scores
    latents: Mapping[str, Array] | None
    tables: Mapping[str, Mapping[str, Any]]
    pictures: Sequence[StoredPicture]

    @property
    def metric(self) -> str:
        """The metric the run is judged by."""
        return str(self.summary["headline"])

    @property
    def rounds(self) -> int:
        """The last round."""
        return int(self.summary["rounds"])

    def class_name(self, number: int) -> str:
        """Return what a class is called; its number if the data does not say."""
        names = self.facts.get("class_names")
        return str(number) if names is None else str(names[number])

    def of(self, measure: str) -> dict[Key, Score]:
        """Return the scores of one measure."""
        return {key: score for key, score in self.scores.items() if key.measure == measure}

    def pictures_of(self, *sections: str) -> list[StoredPicture]:
        """Return the pictures of some sections."""
        return [picture for picture in self.pictures if picture.section in sections]


@dataclass(frozen=True, slots=True)
class Entry:
    """Runs that differ only in their seed, as a comparison shows them.

    Attributes:
        name: What tables call it.
        records: One per seed.
    """

    name: str
    records: Sequence[Record]


class Measure(ABC):
    """One question asked of a trained federation."""

    name: ClassVar[str]
    """What the registry calls it."""
    file: ClassVar[str | None] = None
    """What its details are called in the run folder, without ending."""
    ahead: ClassVar[Sequence[InPieces[Any]]] = ()
    """What it will ask the scene for that can be made beside what other measures ask for."""
    level: ClassVar[Level] = "simulation"
    """What the server must be allowed to learn, for the question to be asked at all."""

    def applies(self, scene: Scene) -> bool:
        """Say whether the question can be asked of this method and these clients."""
        return True

    @abstractmethod
    def measure(self, scene: Scene) -> Findings:
        """Return what was found."""

    def section(self, record: Record) -> Section | None:
        """Return what a report on one run shows; ``None`` if there is nothing to show."""
        return None

    def lead(self, record: Record) -> Picture | None:
        """Return the picture that a report opens with; ``None`` if there is none."""
        return None

    def compared(self, entries: Sequence[Entry]) -> Section | None:
        """Return what a report on several runs shows; ``None`` if there is nothing to show."""
        return None
