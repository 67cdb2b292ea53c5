"""Settings: one frozen type for the Python API, the TOML file and the command line."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Base of every group of settings: frozen, and a name nobody knows is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
