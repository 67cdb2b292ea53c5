"""What a network asks of the samples, checked before any layer is made."""

from __future__ import annotations

from duotone.errors import ConfigError
from duotone.types import DataInfo


def image_shape(
    data: DataInfo, model: str, *, smallest: int, instead: str = "--set model=mlp"
) -> tuple[int, int, int]:
    """Return channels, height and width of images that are large enough for a model.

    Args:
        data: The form of the samples.
        model: The model's name, for the message.
        smallest: The least height and width that leaves a pixel after all pooling.
        instead: What can be asked for that takes samples of any shape.

    Raises:
        ConfigError: The samples are no images, or too small.
    """
    if not data.is_image or min(data.shape[1:]) < smallest:
        raise ConfigError(
            f"The model {model!r} needs images of at least {smallest}×{smallest} pixels; these "
            f"samples have shape {data.shape}. For samples of any shape: {instead}"
        )
    channels, height, width = data.shape
    return channels, height, width
