"""``--rehearse --world N``: one rank runs, the others and the time of collectives are simulated."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from harness import python, run_forked

from torchdevice_cuda.rehearsal.network import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, SEND, Network
from torchdevice_cuda.settings import SettingsError, gpus, load
from torchdevice_cuda.settings.world import World, read, write

PROGRAMS = str(Path(__file__).with_name("world_programs.py"))
#: Bytes of the model of these programs: 8 layers of 8192 x 8192 in bfloat16.
BYTES = 8 * 8192 * 8192 * 2
GB = 1e9
WORLD = ("--rehearse", "--world", "8")


@functools.cache
def run(name: str, world: str) -> dict[str, Any]:
    """Return what a program of many ranks prints; one of them is a new process."""
    command = ("-m", "torchdevice_cuda", "--gpu", "h200", "--rehearse", "--world", world, PROGRAMS, name)
    start = python if name == "mesh" else run_forked
    result: dict[str, Any] = json.loads(start(*command, timeout=180).out.splitlines()[-1])
    return result


# ------------------------------------------------------------------------------------------- the model
def bandwidth(gpu: str, ranks: int, **network: Any) -> float:
    """Return the bus bandwidth of a large all-reduce, as nccl-tests defines it, in GB/s."""
    count = 8 * GB
    ns = Network.of(gpus.find(gpu), World(ranks, **network)).time(ALL_REDUCE, count, range(ranks))
    return 2 * (ranks - 1) / ranks * count / ns


def test_large_collectives_take_the_bandwidth_of_the_slowest_link() -> None:
    # Rings on NVLink; a switch that sums; network adapters of 200 and 400 Gbit/s; PCI Express.
    assert bandwidth("a100-80", 8) == pytest.approx(0.78 * 300, rel=0.01)
    assert bandwidth("h100", 8) == pytest.approx(1.75 * 0.61 * 450, rel=0.01)
    assert bandwidth("a100-80", 64) == pytest.approx(0.92 * 8 * 25, rel=0.01)
    assert bandwidth("rtx-4090", 4) == pytest.approx(0.6 * 31.5, rel=0.01)
    assert bandwidth("h200", 64, network=5.0) == pytest.approx(0.92 * 8 * 5, rel=0.01)
    assert bandwidth("h200", 4, node=1) == pytest.approx(0.92 * 50, rel=0.01)
    assert bandwidth("rtx-4090", 2, link=100.0) == pytest.approx(0.6 * 100, rel=0.01)


def test_small_collectives_take_their_latency_which_grows_with_ranks() -> None:
    network = Network.of(gpus.find("h200"), World(1024))
    times = [network.time(ALL_REDUCE, 8, range(n)) for n in (1, 2, 8, 64, 1024)]
    assert times == sorted(times) and times[0] == 0 and 7_000 < times[1] < times[-1] < 100_000
    # A ring passes each rank; a tree does not.
    assert network.time(ALL_GATHER, 8, range(1024)) > 5 * times[-1]


def test_ranks_of_other_nodes_are_reached_through_the_network() -> None:
    network = Network.of(gpus.find("h200"), World(64))
    near, far = (network.time(SEND, GB, ranks) for ranks in ((0, 7), (0, 8)))
    assert near == pytest.approx(GB / (0.78 * 450), rel=0.05) and far == pytest.approx(GB / (0.92 * 50), rel=0.05)
    # Of what a rank sends to all, 7/8 leave the node.
    assert network.time(ALL_TO_ALL, GB, range(64)) == pytest.approx(56 / 64 * GB / (0.92 * 50), rel=0.05)


# ------------------------------------------------------------------------------------------- programs
@pytest.mark.parametrize("world", ["2", pytest.param("8", marks=pytest.mark.slow), "1024"])
def test_data_parallel_gradients_are_reduced_while_others_are_computed(world: str) -> None:
    found, ranks = run("ddp", world), int(world)
    network = Network.of(gpus.find("h200"), World(ranks))
    expected = network.time(ALL_REDUCE, BYTES, range(ranks)) / 1e6
    assert found["all_reduce"] == pytest.approx(expected, rel=0.05)
    # Only the last buckets have nothing to overlap with.
    assert found["alone"] < found["step"] < found["alone"] + 0.7 * expected + 1


def test_data_parallel_steps_take_longer_with_more_ranks() -> None:
    few, many = run("ddp", "2"), run("ddp", "1024")
    assert few["alone"] == pytest.approx(many["alone"], rel=0.02)
    assert few["all_reduce"] < many["all_reduce"] and few["step"] < many["step"]


@pytest.mark.parametrize("world", [pytest.param("2", marks=pytest.mark.slow), "8", "1024"])
def test_shards_take_less_memory_with_more_ranks(world: str) -> None:
    """Parameters and two moments in bfloat16."""
    assert run("fsdp", world)["kept"] == pytest.approx(3 * BYTES / int(world), rel=0.01, abs=1 << 20)


def test_sharded_steps_wait_for_a_slow_network() -> None:
    fast, slow = run("fsdp", "1024"), run("fsdp", "1024,network=1")
    assert slow["peak"] == fast["peak"] < run("fsdp", "8")["peak"]
    # Parameters are gathered twice, and gradients reduced, at 8 GB/s for a node.
    assert slow["step"] > 3 * BYTES / (0.92 * 8 * 1e6) > fast["step"]


def test_every_rank_has_the_values_of_the_one_that_runs() -> None:
    found = run("values", "16")
    assert {name: found[name] for name in ("SUM", "AVG", "MAX", "PRODUCT")} == {
        "SUM": 48, "AVG": 3, "MAX": 3, "PRODUCT": 3**16 - 1,  # in float32
    }  # fmt: skip
    assert found["gathered"] == [7, 7] and found["whole"] == [1, 2, 1, 2]
    assert found["part"] == 0 and found["received"] == [0, 0]
    assert found["objects"] == [16, 0, 100_000] and found["sent"] == [0]
    assert found["on_cpu"] == [16, 16] and found["of_half"] == 8 and found["functional"] == 32
    assert found["loss"] == 1  # not computed
    assert found["environment"] == ["0", "0", "16", "8"] and found["devices"] == 8


def test_a_mesh_shards_within_nodes() -> None:
    assert run("mesh", "32") == {"kept": 2 * 8192 * 8192 // 8, "mesh": [4, 8]}


def test_another_rank_runs_if_the_environment_names_it() -> None:
    code = """
import os, torch, torch.distributed as dist
dist.init_process_group()
objects = [None]
dist.broadcast_object_list(objects, src=0)
print(dist.get_rank(), os.environ["LOCAL_RANK"], objects)
"""
    done = run_forked("-m", "torchdevice_cuda", "--rehearse", "--world", "16", "-c", code, environment={"RANK": "11"})
    assert done.out == "11 3 [None]\n"
    assert "UncomputedValueWarning: broadcast_object_list: this rehearsal does not run rank 0" in done.err


# ------------------------------------------------------------------------------------------- settings
def test_the_setting_reads_ranks_and_the_network() -> None:
    assert read("1024") == World(1024) and write(World(1024)) == "1024"
    given = World(64, 4, 300.0, 12.5)
    assert read(" 64, node=4, link=300 ,network=12.5") == given == read(write(given))
    assert load({"world": "4", "rehearse": "on"}).devices == 4
    assert load({"world": "1024", "rehearse": "on", "devices": "2"}).devices == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "--world='0' cannot be read; allowed: a number of ranks"),
        ("8,nodes=4", "there is no key 'nodes'; did you mean node?"),
        ("8,network=fast", "network=50"),
        ("8,link=0", "cannot be read"),
    ],
)
def test_a_wrong_setting_is_one_message(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load({"world": text, "rehearse": "on"})


def test_ranks_are_simulated_only_in_a_rehearsal() -> None:
    done = run_forked("-m", "torchdevice_cuda", "--world", "8", "-c", "import torch", check=False)
    assert done.status == 2
    assert done.err == "torchdevice-cuda: --world simulates ranks only in a rehearsal; add --rehearse\n"
    wrong = run_forked("-m", "torchdevice_cuda", *WORLD, "-c", "import torch", environment={"RANK": "9"}, check=False)
    assert wrong.status == 2 and "RANK='9' cannot be read; allowed with --world 8: 0 to 7" in wrong.err


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("rank=0, world_size=4", "the program is rank 0 of 4, but --world simulates 8 ranks; use --world 4"),
        ("store=dist.HashStore(), rank=0, world_size=16", "a process group of 16 ranks, but --world simulates 8"),
    ],
)
def test_another_number_of_ranks_is_an_error(call: str, message: str) -> None:
    code = f"import torch, torch.distributed as dist; dist.init_process_group('nccl', {call})"
    done = run_forked("-m", "torchdevice_cuda", "--rehearse", "--world", "8", "-c", code, check=False)
    assert done.status == 1 and message in done.err


def test_deactivating_restores_the_environment_and_process_groups() -> None:
    code = """
import os, torchdevice_cuda
torchdevice_cuda.activate(driver="virtual", rehearse="on", world="8")
import torch, torch.distributed as dist
from torch.distributed import distributed_c10d
assert os.environ["WORLD_SIZE"] == "8"
dist.init_process_group("nccl")
dist.all_reduce(torch.ones(2, device="cuda"))
dist.destroy_process_group()
torchdevice_cuda.deactivate()
print("WORLD_SIZE" in os.environ, distributed_c10d.rendezvous.__module__, dist.ProcessGroupGloo.__name__)
"""
    assert python("-c", code).out.split() == ["False", "torch.distributed.rendezvous", "ProcessGroupGloo"]


def test_products_take_longer_beside_a_collective() -> None:
    found = run("beside", "8")
    # 24 of 132 multiprocessors: 1.45 times as long, recorded 1.46.
    assert found["before"] == pytest.approx(1.4545 * found["alone"], rel=0.02)
    # What is queued already takes longer by the mean of what ran before.
    assert 1.25 < found["after"] / found["alone"] < 1.46
