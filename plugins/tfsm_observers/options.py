"""The observers' options, apart from the observers so that listing them imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typing_extensions import Doc


@dataclass(frozen=True, kw_only=True)
class TensorBoardOptions:
    """Options of TensorBoard."""

    histograms: Annotated[bool, Doc("draw the champion's weights and a parent's sensitivities, layer by layer")] = True
    directory: Annotated[str | None, Doc("where to write; none: tensorboard/ in the run directory")] = None
