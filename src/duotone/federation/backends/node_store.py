"""The states of a node's clients, on the node's own disk.

One folder for each run, one file for each state. Two states of a client are kept: the one that the
server named last, and the newest. So whatever happens to node or server, the state that the server
will name next is there. Nothing is pickled.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError

from duotone.errors import CheckpointError
from duotone.federation.journal import file_stem
from duotone.federation.state_files import packed_state, unpacked_state
from duotone.files import disk_errors, read_regular, write_atomically
from duotone.types import ClientState


@dataclass(frozen=True, slots=True)
class NodeStore:
    """States in a folder.

    Attributes:
        folder: A folder for one run.
    """

    folder: Path

    def get(self, client: str, round: int) -> ClientState | None:
        """Return the state of a round.

        Raises:
            CheckpointError: Its file is damaged.
        """
        path = self._path(client, round)
        try:
            return ClientState(*unpacked_state(read_regular(path)))
        except FileNotFoundError:
            return None
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"The state {path.name} cannot be read: {error}.") from error

    def put(self, client: str, round: int, state: ClientState, accepted: int) -> None:
        """Keep the newest state, and the one that the server has named; the others go."""
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        new = self._path(client, round)
        write_atomically(new, packed_state(state.local, state.extra))
        needed = {new, self._path(client, accepted)}
        for path in self.folder.glob("*.safetensors"):
            if path not in needed and path.name.rpartition("-")[0] == file_stem(client):
                path.unlink()

    def _path(self, client: str, round: int) -> Path:
        return self.folder / f"{file_stem(client)}-{round:05d}.safetensors"
