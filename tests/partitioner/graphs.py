"""Graphs to partition, their best partition by exhaustion, and other ways: no product code."""

import random
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import networkx as nx

from partitioner.graph import Region
from partitioner.tensors import TensorUse

Cost = tuple[int, int]  # clusters, bytes


def exhaustive(dag: nx.DiGraph, capable: set[Hashable], *, connected: bool = True) -> Cost:
    """The fewest clusters, and the fewest bytes over the border with that many.

    A partition is a sequence of clusters, each of which finds done what its members wait for. So
    the cheapest way to any set of nodes that are done follows from smaller such sets. Sets are
    the bits of an integer; feasible for about ten capable nodes.
    """
    nodes = [v for v in nx.topological_sort(dag) if v in capable]
    clusters = list(_clusters(dag, nodes, connected))
    best: dict[int, Cost] = {0: (0, 0)}
    for done in range(1 << len(nodes)):
        if done not in best:
            continue
        count, paid = best[done]
        for cluster, awaits, price in clusters:
            if not cluster & done and not awaits & ~done:
                reached = (count + 1, paid + price)
                if reached < best.get(done | cluster, (len(nodes) + 1, 0)):
                    best[done | cluster] = reached
    return best[(1 << len(nodes)) - 1]


def cost_of(dag: nx.DiGraph, clusters: Sequence[Sequence[Hashable]]) -> Cost:
    """Clusters, and bytes over their borders."""
    bit = {v: 1 << i for i, v in enumerate(v for members in clusters for v in members)}
    tensors = touching(dag, bit)
    sets = [sum(bit[v] for v in members) for members in clusters]
    return len(sets), sum(_price(members, tensors) for members in sets)


def _clusters(
    dag: nx.DiGraph, nodes: Sequence[Hashable], connected: bool
) -> Iterator[tuple[int, int, int]]:
    """Every set that can be a cluster: its bits, those it waits for, and what it pays."""
    bit = {v: 1 << i for i, v in enumerate(nodes)}
    awaits, strictly = ancestors(dag, bit)
    near = [sum(bit.get(w, 0) for w in (*dag.pred[v], *dag.succ[v])) for v in nodes]
    tensors = touching(dag, bit)
    for cluster in range(1, 1 << len(nodes)):
        members = [i for i in range(len(nodes)) if cluster >> i & 1]
        if any(strictly[nodes[i]] & cluster for i in members):
            continue  # a path through an incapable node joins two of them
        if connected and _piece(cluster, near) != cluster:
            continue
        before = 0
        for i in members:
            before |= awaits[nodes[i]]
        yield cluster, before & ~cluster, _price(cluster, tensors)


def _piece(cluster: int, near: Sequence[int]) -> int:
    """The part of a set that is connected with its lowest bit."""
    piece, rim = 0, cluster & -cluster
    while rim:
        piece |= rim
        i = (rim & -rim).bit_length() - 1
        rim = (rim & ~(1 << i)) | (near[i] & cluster & ~piece)
    return piece


def ancestors(
    dag: nx.DiGraph, bit: dict[Hashable, int]
) -> tuple[dict[Hashable, int], dict[Hashable, int]]:
    """The nodes with a bit that lead to each node; and those that do through one without."""
    awaits: dict[Hashable, int] = {}
    strictly: dict[Hashable, int] = {}
    for v in nx.topological_sort(dag):
        awaits[v] = strictly[v] = 0
        for u in dag.pred[v]:
            awaits[v] |= awaits[u] | bit.get(u, 0)
            strictly[v] |= strictly[u] if u in bit else awaits[u]
    return awaits, strictly


def touching(dag: nx.DiGraph, bit: dict[Hashable, int]) -> list[tuple[int, int, int, bool]]:
    """Every tensor: bytes, its maker and its readers as bits, and whether others read it."""
    read: dict[tuple[bool, Hashable, Hashable], dict[Hashable, int]] = {}
    for u, v, data in dag.edges(data=True):
        for tid, size in data.get("tensors", {"the only one": 1}).items():
            read.setdefault((True, u, tid), {})[v] = size
    for v, data in dag.nodes(data=True):
        for tid, size in data.get("outputs", {}).items():
            read.setdefault((True, v, tid), {})["outside the graph"] = size
        for tid, size in data.get("inputs", {}).items():
            read.setdefault((False, "outside the graph", tid), {})[v] = size
    return [
        (
            max(readers.values()),
            bit.get(maker, 0),
            sum(bit.get(v, 0) for v in readers),
            any(v not in bit for v in readers),
        )
        for (_, maker, _), readers in read.items()
    ]


def _price(cluster: int, tensors: Sequence[tuple[int, int, int, bool]]) -> int:
    """The bytes of the tensors that leave a set, or that it reads and does not make."""
    paid = 0
    for size, maker, readers, others in tensors:
        if (others or readers & ~cluster) if maker & cluster else readers & cluster:
            paid += size
    return paid


def by_waves(dag: nx.DiGraph, capable: set[Hashable]) -> list[list[Hashable]]:
    """As ONNX Runtime's own providers group nodes: one group a wave, whether connected or not.

    A wave takes nodes as they become ready. A node that is not capable and reads from the wave's
    group waits for the next wave, and so does all that comes after it; any other that is not
    capable just goes by. When nothing is ready, the group is closed.
    """
    missing = dict(dag.in_degree())
    ready = deque(node for node, count in missing.items() if not count)
    place = {node: i for i, node in enumerate(dag)}
    groups = []
    while ready:
        group: set[Hashable] = set()
        postponed: deque[Hashable] = deque()
        while ready:
            node = ready.popleft()
            if node not in capable and not group.isdisjoint(dag.pred[node]):
                postponed.append(node)
                continue
            if node in capable:
                group.add(node)
            for reader in dag.succ[node]:
                missing[reader] -= 1
                if not missing[reader]:
                    ready.append(reader)
        groups.append(sorted(group, key=place.__getitem__))
        ready = postponed
    return [group for group in groups if group]


def by_connected_waves(dag: nx.DiGraph, capable: set[Hashable]) -> list[list[Hashable]]:
    """The weakly connected components of every group of `by_waves`."""
    pieces = [nx.weakly_connected_components(dag.subgraph(g)) for g in by_waves(dag, capable)]
    return [list(piece) for wave in pieces for piece in wave]


def by_single_nodes(dag: nx.DiGraph, capable: set[Hashable]) -> list[list[Hashable]]:
    """Nodes in topological order; each joins every cluster it reads from that it can join.

    It cannot join one that leads to it by another way: through a node that is not capable or
    through another cluster.
    """
    return merged(dag.pred, nx.topological_sort(dag), capable)


def by_single_nodes_backwards(dag: nx.DiGraph, capable: set[Hashable]) -> list[list[Hashable]]:
    """The same with every edge turned round."""
    return merged(dag.succ, reversed(list(nx.topological_sort(dag))), capable)


def merged(
    reads: Mapping[Hashable, Iterable[Hashable]], order: Iterable[Hashable], capable: set[Hashable]
) -> list[list[Hashable]]:
    home: dict[Hashable, int] = {}  # of each node so far, its block
    members: dict[int, list[Hashable]] = {}
    after: dict[int, set[Hashable]] = {}  # nodes that read from each block
    for k, node in enumerate(order):
        read = {home[u] for u in reads[node]}
        joined = []
        if node in capable:
            able = sorted(b for b in read if members[b][0] in capable)
            joined = [b for b in able if len(read) == 1 or not _leads(b, read, home, after)]
        home[node], members[k], after[k] = k, [node], set()
        for b in joined:
            large, small = sorted((b, home[node]), key=lambda b: len(members[b]), reverse=True)
            for member in members[small]:
                home[member] = large
            members[large] += members.pop(small)
            after[large] |= after.pop(small)
        for b in read.difference(joined):
            after[b].add(node)
    return [nodes for nodes in members.values() if nodes[0] in capable]


def _leads(
    start: int, goals: set[int], home: dict[Hashable, int], after: dict[int, set[Hashable]]
) -> bool:
    """True if a path leads from a block to another one of some."""
    met, stack = {start}, [start]
    while stack:
        for other in {home[node] for node in after[stack.pop()]} - met:
            if other in goals:
                return True
            met.add(other)
            stack.append(other)
    return False


def dag_of(text: str) -> nx.DiGraph:
    """A graph from paths: `a b c, b d` has the edges a-b, b-c and b-d."""
    dag = nx.DiGraph()
    for path in text.split(","):
        nx.add_path(dag, path.split())
    return dag


def capable_of(dag: nx.DiGraph) -> set[Hashable]:
    """Nodes with a lower-case name: in drawn graphs, capitals are not capable."""
    return {node for node in dag if node.islower()}


def random_dag(rng: random.Random, size: int, density: float | None = None) -> nx.DiGraph:
    """Edges with one probability between all pairs, integers ascending; tensors of 1 to 9 bytes.

    Some producers have two tensors, some graphs inputs and outputs.
    """
    density = rng.choice([0.1, 0.2, 0.35, 0.5]) if density is None else density
    dag = nx.DiGraph()
    dag.add_nodes_from(range(size))
    for u in range(size):
        sizes = {f"t{u}.{k}": rng.randint(1, 9) for k in range(rng.choice([1, 1, 1, 2]))}
        for v in range(u + 1, size):
            if rng.random() < density:
                tid = rng.choice(list(sizes))
                dag.add_edge(u, v, tensors={tid: sizes[tid]})
        if rng.random() < 0.1:
            dag.nodes[u]["outputs"] = dict(list(sizes.items())[:1])
        if rng.random() < 0.1:
            dag.nodes[u]["inputs"] = {"x": 5}
    return dag


def random_small(rng: random.Random, size: int) -> nx.DiGraph:
    """As `random_dag`, of any density; edges carry up to three tensors or have no attribute."""
    density = rng.choice([0.05, 0.1, 0.2, 0.3, 0.5, 0.8])
    plain = rng.random() < 0.2
    dag = nx.DiGraph()
    dag.add_nodes_from(rng.sample(range(size), size))
    for u in range(size):
        sizes = {f"{u}.{k}": rng.choice([0, 1, 2, 3, 8, 100]) for k in range(rng.choice([1, 2, 3]))}
        for v in range(u + 1, size):
            if rng.random() < density:
                carried = rng.sample(sorted(sizes), rng.randint(1, len(sizes)))
                dag.add_edge(u, v, **({} if plain else {"tensors": {t: sizes[t] for t in carried}}))
        if rng.random() < 0.15:
            dag.nodes[u]["outputs"] = {t: sizes[t] for t in rng.sample(sorted(sizes), 1)}
        if rng.random() < 0.15:
            dag.nodes[u]["inputs"] = dict.fromkeys(rng.sample("xyz", rng.randint(1, 2)), 4)
    return dag


def random_layers(rng: random.Random, size: int) -> nx.DiGraph:
    """Short edges mostly, as in a network: each node reads up to three of the last few."""
    dag = nx.DiGraph()
    dag.add_nodes_from(range(size))
    sizes = [rng.choice([1, 4, 4, 16, 64]) for _ in range(size)]
    for v in range(1, size):
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            u = max(0, v - rng.choice([1, 1, 2, 3, 5, 9]))
            dag.add_edge(u, v, tensors={u: sizes[u]})
    return dag


def random_capable(rng: random.Random, dag: nx.DiGraph) -> set[Hashable]:
    """Each node with one probability out of a few."""
    share = rng.choice([0.3, 0.5, 0.7, 0.9, 1.0])
    return {node for node in dag if rng.random() < share}


def shuffled(rng: random.Random, dag: nx.DiGraph) -> nx.DiGraph:
    """The same graph with nodes and edges inserted in another order."""
    nodes, edges = list(dag.nodes(data=True)), list(dag.edges(data=True))
    rng.shuffle(nodes)
    rng.shuffle(edges)
    other = nx.DiGraph()
    other.add_nodes_from(nodes)
    other.add_edges_from(edges)
    return other


def priced(region: Region, tensors: Sequence[TensorUse], block: Sequence[int]) -> tuple[int, int]:
    """Clusters and bytes of a partition that gives each node its block."""
    clusters = {b for b, flag in zip(block, region.capable, strict=True) if flag}
    touching = (len({block[v] for v in tensor.touched}) for tensor in tensors)
    sizes = (tensor.price(count) for tensor, count in zip(tensors, touching, strict=True))
    return len(clusters), sum(sizes)
