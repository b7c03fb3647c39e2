"""SM-G-RMS: safe mutation through squared gradients, the diagonal of the Gauss-Newton matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.probes import probed_rms
from tfsm.kernels.sensitivity import rms_sensitivity
from tfsm.models.network import Network
from tfsm_mutations.options import RmsOptions
from tfsm_mutations.probing import Probing
from tfsm_mutations.shaped import ShapedNoise

EXACT = 8
"""Answers to one input up to which there is a backward pass for each, rather than probes."""
PROBES = 8
"""Enough that an estimate is seldom far too small, which would make a change far too large."""


class RmsMeasure(Probing):
    r"""Measure the root mean square of the output gradient.

    .. math:: s_p = \sqrt{\tfrac1I \sum_i \sum_k \left(\partial y_{ik} / \partial w_p\right)^2}

    Twice its square is the diagonal of the Hessian of the divergence, so that a change of one weight by `d` alone
    moves the outputs by a divergence of `(s d)^2`, to the second order. Squares do not wash out.
    """

    measures_each: ClassVar[bool] = True

    def exact(self, network: Network, genome: Tensor, experience: Nest) -> Tensor:
        """Return the raw sensitivity, by gradients of single experiences."""
        return rms_sensitivity(network, genome, experience)

    def estimated(self, network: Network, genome: Tensor, experience: Nest, seed: Tensor, probes: int) -> Tensor:
        """Return an estimate of it, with a sign for every output of every experience."""
        return probed_rms(network, genome, experience, seed, probes=probes)

    def passes(self, network: Network) -> int:
        """Return the number of probes: none where a network answers few numbers."""
        if self.probes is not None:
            return self.probes
        return 0 if network.answers is not None and network.answers <= EXACT else PROBES


@dataclass(frozen=True, kw_only=True)
class SafeMutationRms(RmsMeasure, RmsOptions, ShapedNoise):
    """Divide the noise by the root mean square of the output gradient; see `RmsMeasure`."""
