"""SM-G-SUM: safe mutation through summed gradients."""

from __future__ import annotations

from dataclasses import dataclass

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.probes import probed_sum
from tfsm.kernels.sensitivity import sum_sensitivity
from tfsm.models.network import Network
from tfsm_mutations.options import SumOptions
from tfsm_mutations.probing import Probing
from tfsm_mutations.shaped import ShapedNoise


class SumMeasure(Probing):
    r"""Measure the summed output gradient.

    .. math:: s_p = \sqrt{\sum_k \left(\sum_i \partial y_{ik} / \partial w_p\right)^2}

    Not divided by the number of experiences: opposite signs wash out in the sum, and the paper found that the
    larger `s` makes up for some of it. An intensity therefore belongs to a number of experiences.
    """

    def exact(self, network: Network, genome: Tensor, experience: Nest) -> Tensor:
        """Return the raw sensitivity, by a backward pass an output."""
        return sum_sensitivity(network, genome, experience)

    def estimated(self, network: Network, genome: Tensor, experience: Nest, seed: Tensor, probes: int) -> Tensor:
        """Return an estimate of it, with a sign for every output."""
        return probed_sum(network, genome, experience, seed, probes=probes)


@dataclass(frozen=True, kw_only=True)
class SafeMutationSum(SumMeasure, SumOptions, ShapedNoise):
    """Divide the noise by the summed output gradient; see `SumMeasure`."""
