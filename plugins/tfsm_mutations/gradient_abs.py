"""SM-G-ABS: safe mutation through absolute gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.sensitivity import abs_sensitivity
from tfsm.models.network import Network
from tfsm_mutations.measuring import Measuring
from tfsm_mutations.shaped import ShapedNoise


class AbsMeasure(Measuring):
    r"""Measure the mean absolute output gradient.

    .. math:: s_p = \sqrt{\sum_k \left(\tfrac1I \sum_i |\partial y_{ik} / \partial w_p|\right)^2}
    """

    measures_each: ClassVar[bool] = True

    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity; the direction does not matter."""
        return abs_sensitivity(network, genome, experience)


@dataclass(frozen=True, kw_only=True)
class SafeMutationAbs(AbsMeasure, ShapedNoise):
    """Divide the noise by the mean absolute output gradient; see `AbsMeasure`."""
