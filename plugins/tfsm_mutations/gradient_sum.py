"""SM-G-SUM: safe mutation through summed gradients."""

from __future__ import annotations

from dataclasses import dataclass

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.sensitivity import sum_sensitivity
from tfsm.models.network import Network
from tfsm_mutations.shaped import ShapedNoise


@dataclass(frozen=True, kw_only=True)
class SafeMutationSum(ShapedNoise):
    r"""Divide the noise by the summed output gradient.

    .. math:: s_p = \sqrt{\sum_k \left(\sum_i \partial y_{ik} / \partial w_p\right)^2}

    Not divided by the number of experiences: opposite signs wash out in the sum, and the paper found that the
    larger `s` makes up for some of it. An intensity therefore belongs to a number of experiences.
    """

    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity; the direction does not matter."""
        return sum_sensitivity(network, genome, experience)
