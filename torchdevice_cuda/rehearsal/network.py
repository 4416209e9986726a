"""How long collectives take: latency and bandwidth of links within a node, and of the network between nodes.

The algorithms are NCCL's: rings, trees between nodes, and the switch's own sums (NVLS). Its three protocols trade
bandwidth for latency; the fastest combination counts. Latencies are those by which NCCL chooses
(https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc), efficiencies are set by published bandwidths
(docs/rehearsal.md). Times are nanoseconds, rates bytes per nanosecond.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence

from ..settings.gpus import Gpu
from ..settings.world import World
from .model import Rates


@dataclasses.dataclass(frozen=True)
class Protocol:
    """A protocol of NCCL: its share of the bandwidth, and its latencies."""

    share: float
    start: float
    nvlink: float
    pcie: float
    network: float


_PROTOCOLS = (
    Protocol(0.4, 6_600, 600, 1_000, 2_700),  # LL
    Protocol(0.92, 14_000, 1_900, 2_500, 4_000),  # LL128
    Protocol(1.0, 8_400, 3_400, 5_700, 14_000),  # Simple
)
#: Shares of a rate that NCCL reaches: of NVLink, of PCI Express, and of the network.
_NVLINK, _PCIE, _NETWORK = 0.78, 0.6, 0.92
#: The share of NVLink at which a switch sums, since the GPUs of capability 9.0.
_NVLS, _NVLS_CAPABILITY = 0.61, (9, 0)
#: Network adapters of a GPU: 400 Gbit/s since the GPUs of capability 9.0, 200 Gbit/s before.
_ADAPTER, _OLDER_ADAPTER = 50.0, 25.0

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"
BROADCAST, REDUCE, ALL_TO_ALL = "broadcast", "reduce", "all_to_all"
GATHER, SCATTER, SEND, RECEIVE, BARRIER = "gather", "scatter", "send", "recv", "barrier"


@dataclasses.dataclass(frozen=True)
class Network:
    """The links of a GPU."""

    node: int
    link: float
    network: float
    has_nvlink: bool
    sums_in_switch: bool

    @classmethod
    def of(cls, gpu: Gpu, world: World) -> Network:
        """Return the links of a GPU; the setting overrides the profile's."""
        is_recent = gpu.capability >= _NVLS_CAPABILITY
        link = gpu.nvlink_gb_s / 2 if gpu.nvlink_gb_s else Rates.of(gpu).pcie
        return cls(
            world.node,
            world.link or link,
            world.network or (_ADAPTER if is_recent else _OLDER_ADAPTER),
            gpu.nvlink_gb_s is not None,
            gpu.nvlink_gb_s is not None and is_recent,
        )

    def time(self, kind: str, count: float, ranks: Sequence[int]) -> float:
        """Return the time of a collective among ranks.

        ``count`` is its bytes: those of a tensor that every rank has, of all parts together, or of a message.
        """
        if len(ranks) < 2:
            return 0.0
        nodes = Counter(rank // self.node for rank in ranks)
        return min(self._time(kind, count, len(ranks), len(nodes), max(nodes.values()), each) for each in _PROTOCOLS)

    def _time(self, kind: str, count: float, n: int, nodes: int, per_node: int, protocol: Protocol) -> float:
        inside = self.link * (_NVLINK if self.has_nvlink else _PCIE) * protocol.share
        adapter = self.network * _NETWORK * protocol.share
        # Rings leave a node through the adapters of all of its GPUs.
        ring = min(inside, per_node * adapter) if nodes > 1 else inside
        hop = protocol.nvlink if self.has_nvlink else protocol.pcie
        around = nodes * protocol.network + (n - nodes) * hop if nodes > 1 else (n - 1) * hop
        share = (n - 1) / n
        if kind in (ALL_REDUCE, BARRIER):
            times = [2 * share * count / ring + 2 * around]
            if nodes > 1:
                depth = math.ceil(math.log2(nodes)) * protocol.network + (per_node - 1) * hop
                times.append(2 * share * count / ring + 2 * depth)
            elif self.sums_in_switch:
                times.append(count / (self.link * _NVLS * protocol.share) + 2 * hop)
            return protocol.start + min(times)
        if kind in (ALL_GATHER, REDUCE_SCATTER):
            return protocol.start + share * count / ring + around
        if kind in (BROADCAST, REDUCE):
            return protocol.start + count / ring + around
        far = protocol.network if nodes > 1 else hop
        if kind == ALL_TO_ALL:
            outside = (n - per_node) / n * count / adapter
            return protocol.start + max(outside, (per_node - 1) / n * count / inside) + far
        # One rank's own links: a message, or all parts of the root.
        share = share if kind in (GATHER, SCATTER) else 1.0
        return protocol.start + share * count / (adapter if nodes > 1 else inside) + far
