"""Time of the collectives inside one instance, on the fabric that really carries them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pddplan.domain.chip import Chip, Fabric
from pddplan.domain.workload import Array
from pddplan.performance.efficiency import Efficiency
from pddplan.units import GIGA

DEFAULT_NIC_BYTES_PER_S = 50 * GIGA
"""One 400 Gbit/s port per chip, where a profile names none (usual since 2022)."""

PCIE_BYTES_PER_S = 50 * GIGA
"""Usable rate of a gen-5 x16 slot per direction, where a profile names none."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Chips that take part in a collective; numbers, or arrays over many groups."""

    ranks: Array | float
    domain: Array | float
    """Of them inside one scale-up domain."""
    link_bytes_per_s: Array | float
    """Inside the domain, one chip to all its peers, per direction."""
    nic_bytes_per_s: Array | float


def group_of(chip: Chip, ranks: int) -> Group:
    """``ranks`` chips of one kind, packed into as few scale-up domains as possible."""
    domain = max(min(ranks, chip.scaleup_domain_chips), 1)
    return Group(
        ranks=float(ranks),
        domain=float(domain),
        link_bytes_per_s=link_bytes_per_s(chip, domain),
        nic_bytes_per_s=chip.nic_bytes_per_s or DEFAULT_NIC_BYTES_PER_S,
    )


def link_bytes_per_s(chip: Chip, ranks: int) -> float:
    """Rate at which one chip can send to ``ranks - 1`` peers of its scale-up domain, taken together.

    Formula:     switch, torus: r;  mesh: r (n-1)/(d-1), because only the links to peers of the group carry data;
                 PCIe without peer access: r / ceil(n/2), because the chips of a socket share its root complex
    Parameters:  chip (r per direction [bytes/s], d chips per domain); ranks n of the group
    Returns:     [bytes/s]
    Raises:      nothing
    Holds when:  the group lies inside one domain.
    References:  performance_terms
    """
    rate = chip.scaleup_bytes_per_s or PCIE_BYTES_PER_S
    if chip.fabric is Fabric.MESH and chip.scaleup_domain_chips > 1:
        peers = min(max(ranks, 2), chip.scaleup_domain_chips) - 1
        return rate * peers / (chip.scaleup_domain_chips - 1)
    if chip.fabric is Fabric.PCIE:
        return min(rate, PCIE_BYTES_PER_S) / max(1, -(-ranks // 2))
    return rate


def allreduce_time_s(message_bytes: Array, group: Group, *, efficiency: Efficiency) -> Array:
    """Time of one all-reduce among the chips of a group.

    Formula:     inside a domain min(one shot, two phases):
                 one shot    a + (d-1) B / (r e)
                 two phases  a_2 + 2 (d-1)/d B / (r e)
                 over nodes  two phases inside + a_nic + 2 (m-1)/m (B/d) / (r_nic e_nic), m = n/d nodes
    Parameters:  message_bytes B, any shape [bytes]; group gives n, d, r, r_nic; efficiency a, a_2, e, a_nic, e_nic
    Returns:     same shape as message_bytes [s]; 0 for one rank
    Raises:      nothing
    Holds when:  nothing else uses the links meanwhile.
    References:  performance_terms
    """
    e = efficiency
    size, domain = np.asarray(message_bytes, dtype=float), np.asarray(group.domain, dtype=float)
    rate = group.link_bytes_per_s * e.allreduce_efficiency
    one_shot = e.allreduce_latency_s + (domain - 1) * size / rate
    two_phase = e.allreduce_ring_latency_s + 2 * (domain - 1) / domain * size / rate
    nodes = group.ranks / domain
    over_nodes = e.nic_latency_s + 2 * (nodes - 1) / nodes * size / domain / (group.nic_bytes_per_s * e.nic_efficiency)
    inside = np.where(domain > 1, np.where(nodes > 1, two_phase, np.minimum(one_shot, two_phase)), 0.0)
    result: Array = inside + np.where(nodes > 1, over_nodes, 0.0)
    return result


def direct_copies(ranks: int, domain: int, *, top_k: int, decode: bool) -> tuple[float, float]:
    """Copies of a token that one chip sends inside and outside its scale-up domain, where each goes to its experts.

    Formula:     K = n (1 - (1 - 1/n)^k) ranks that hold an expert of the token, in m = n/d domains.
                 Prefill: outside (m-1) (1 - (1 - 1/m)^k), once per domain; inside (d-1)/d K, as the chip that a copy
                 arrives at passes it on, and every chip does so for others.
                 Decoding: outside k (n-d)/n, once per expert, to save a hop; inside (d-1)/n K
    Parameters:  ranks n; domain d of them inside one domain; top_k k experts per token; decode
    Returns:     (inside, outside) [copies]
    Raises:      nothing
    Holds when:  experts are chosen evenly; engines have a kernel for it (DeepEP and its likes).
    References:  deepep
    """
    reached = ranks * (1.0 - (1.0 - 1.0 / ranks) ** top_k)
    nodes = max(ranks / domain, 1.0)
    if decode:
        return reached * (domain - 1) / ranks, top_k * (ranks - domain) / ranks
    return reached * (domain - 1) / domain, (nodes - 1) * (1.0 - (1.0 - 1.0 / nodes) ** top_k)


def exchange_time_s(
    token_bytes: Array,
    group: Group,
    *,
    inside: Array | float,
    outside: Array | float,
    efficiency: Efficiency,
) -> Array:
    """Time of one dispatch or combine of tokens among expert-parallel chips.

    Formula:     a + C_i B / (r e) inside the domain; outside a + a_nic + C_o B / (r_nic e_nic);
                 both run side by side, the slower counts. C = direct (1 - g) + g gathered; gathered: d - 1 and
                 n - d, every token to every chip
    Parameters:  token_bytes B of all tokens of one chip, any shape [bytes]; inside, outside: copies of each token that
                 go straight to its experts (see direct_copies, fullest_copies); group gives n, d, r, r_nic;
                 efficiency a, e, a_nic, e_nic, g
    Returns:     same shape [s]; 0 for one rank
    Raises:      nothing
    Holds when:  experts are spread evenly over the ranks.
    References:  performance_terms
    """
    e = efficiency
    size, ranks = np.asarray(token_bytes, dtype=float), np.asarray(group.ranks, dtype=float)
    straight, gather = 1.0 - e.exchange_gather, e.exchange_gather
    near = inside * straight + gather * (group.domain - 1)
    far = outside * straight + gather * (ranks - group.domain)
    within = e.alltoall_latency_s + size * near / (group.link_bytes_per_s * e.alltoall_efficiency)
    over = e.alltoall_latency_s + e.nic_latency_s + size * far / (group.nic_bytes_per_s * e.nic_efficiency)
    slower = np.where(ranks > group.domain, np.maximum(within, over), within)
    result: Array = np.where(ranks > 1, slower, 0.0)
    return result
