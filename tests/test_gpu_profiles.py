"""GPU profiles as files: those that come with the package, and the user's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness import run_forked
from harness.processes import ROOT

from torchdevice_cuda import settings
from torchdevice_cuda.drivers.host.cuda_device import DRAWS_AS
from torchdevice_cuda.settings import gpus
from torchdevice_cuda.settings.gpus import model, reading

#: What profiles report since their first release: capability, multiprocessors, MiB, clock, memory clock, bus, L2, name.
REPORTED = """
p100              6.0  56  16384 1328   715 4096   4096 Tesla P100-PCIE-16GB
v100              7.0  80  16384 1530   877 4096   6144 Tesla V100-SXM2-16GB
v100-32           7.0  80  32768 1530   877 4096   6144 Tesla V100-SXM2-32GB
t4                7.5  40  15360 1590  5001  256   4096 Tesla T4
rtx-2080-ti       7.5  68  11264 1545  7000  352   5632 NVIDIA GeForce RTX 2080 Ti
a100-40           8.0 108  40960 1410  1215 5120  40960 NVIDIA A100-SXM4-40GB
a100-80           8.0 108  81920 1410  1593 5120  40960 NVIDIA A100-SXM4-80GB
a100-pcie-80      8.0 108  81920 1410  1512 5120  40960 NVIDIA A100 80GB PCIe
a30               8.0  56  24576 1440  1215 3072  24576 NVIDIA A30
a10               8.6  72  23028 1695  6251  384   6144 NVIDIA A10
a10g              8.6  80  23028 1710  6251  384   6144 NVIDIA A10G
a40               8.6  84  46068 1740  7251  384   6144 NVIDIA A40
rtx-a4000         8.6  48  16376 1560  7001  256   4096 NVIDIA RTX A4000
rtx-a5000         8.6  64  24564 1695  8001  384   6144 NVIDIA RTX A5000
rtx-a6000         8.6  84  49140 1800  8001  384   6144 NVIDIA RTX A6000
rtx-3060          8.6  28  12288 1777  7501  192   3072 NVIDIA GeForce RTX 3060
rtx-3070          8.6  46   8192 1725  7001  256   4096 NVIDIA GeForce RTX 3070
rtx-3080          8.6  68  10240 1710  9501  320   5120 NVIDIA GeForce RTX 3080
rtx-3090          8.6  82  24576 1695  9751  384   6144 NVIDIA GeForce RTX 3090
jetson-orin       8.7  16  62841 1300  3200  256   4096 Orin
jetson-orin-nano  8.7   8   7620 1020  2133  128   2048 Orin
l4                8.9  58  23034 2040  6251  192  49152 NVIDIA L4
l40s              8.9 142  46068 2520  9001  384  98304 NVIDIA L40S
rtx-4060          8.9  24   8188 2460  8501  128  24576 NVIDIA GeForce RTX 4060
rtx-4070          8.9  46  12282 2475 10501  192  36864 NVIDIA GeForce RTX 4070
rtx-4080          8.9  76  16376 2505 11201  256  65536 NVIDIA GeForce RTX 4080
rtx-4090          8.9 128  24564 2520 10501  384  73728 NVIDIA GeForce RTX 4090
rtx-6000-ada      8.9 142  49140 2505 10001  384  98304 NVIDIA RTX 6000 Ada Generation
h100              9.0 132  81559 1980  2619 5120  51200 NVIDIA H100 80GB HBM3
h100-pcie         9.0 114  81559 1755  1593 5120  51200 NVIDIA H100 PCIe
h200              9.0 132      - 1980  3201 6016  61440 NVIDIA H200
gh200             9.0 132  97871 1980  2619 6144  61440 NVIDIA GH200 480GB
b200             10.0 148 183359 1965  3996 7680 129536 NVIDIA B200
rtx-5070         12.0  48  12227 2512 14001  192  49152 NVIDIA GeForce RTX 5070
rtx-5080         12.0  84  16303 2617 15001  256  65536 NVIDIA GeForce RTX 5080
rtx-5090         12.0 170  32607 2407 14001  512  98304 NVIDIA GeForce RTX 5090
""".strip().splitlines()
#: Lanes of FP32 in a multiprocessor, by the CUDA programming guide ("Arithmetic Instructions").
LANES = {(6, 0): 64, (7, 0): 64, (7, 5): 64, (8, 0): 64}
OWN = """\
name = "My GPU"
capability = "8.9"
multiprocessors = 20
memory = "2 GiB"
clock_mhz = 2000
memory_clock_mhz = 8000
bus_bits = 128
l2_kib = 2048
"""


@pytest.mark.parametrize("row", REPORTED, ids=lambda row: row.split()[0])
def test_reported_properties_stay(row: str) -> None:
    key, capability, *figures, name = row.split(maxsplit=8)
    gpu = gpus.find(key)
    memory = 150_109_880_320 if figures[1] == "-" else int(figures.pop(1)) << 20
    found = (gpu.multiprocessors, gpu.clock_mhz, gpu.memory_clock_mhz, gpu.bus_bits, gpu.l2_kib)
    assert found == tuple(int(figure) for figure in figures if figure != "-")
    assert (gpu.name, gpu.memory, gpu.integrated) == (name, memory, key.startswith("jetson"))
    assert ".".join(map(str, gpu.capability)) == capability


@pytest.mark.parametrize("key", gpus.names())
def test_figures_agree(key: str) -> None:
    """A slip of the pen shows where two published figures follow from each other."""
    gpu = gpus.find(key)
    assert gpus.spelled(key) == key and gpus.spelled(key.upper().replace("-", " ")) == key
    assert gpu.architecture.shared_kib_of_block <= gpu.architecture.shared_kib
    assert gpu.sources and gpu.memory >= 1 << 30 and gpu.bus_bits % 32 == 0
    assert gpu.memory_clock_mhz * 2 * gpu.bus_bits / 8 / 1000 == pytest.approx(gpu.bandwidth_gb_s, rel=0.03)
    fp32 = 2 * LANES.get(gpu.capability, 128) * gpu.multiprocessors * gpu.clock_mhz / 1e6
    assert gpu.tflops["fp32"] == pytest.approx(fp32, rel=0.12)
    doubled = [gpu.tflops[kind] for kind in ("tensor_tf32", "tensor_fp16", "tensor_fp8") if kind in gpu.tflops]
    for slower, faster in zip(doubled, doubled[1:], strict=False):
        assert faster == pytest.approx(2 * slower, rel=0.03)


def test_default_draws_are_those_of_the_profile() -> None:
    gpu = gpus.find("h200")
    assert (gpu.multiprocessors, gpu.architecture.threads, gpu.capability) == DRAWS_AS


def test_the_list() -> None:
    lines = run_forked("-m", "torchdevice_cuda", "--gpu", "list").out.splitlines()
    assert lines[0].split() == [
        *("profile", "name", "capability", "multiprocessors", "memory", "bandwidth"),
        *("FP32", "TF32", "FP16", "FP8", "clock"),
    ]
    rows = {line.split()[0]: line for line in lines[1 : lines.index("")]}
    assert sorted(rows) == list(gpus.names()) and len(rows) >= 82
    for shown in ("80.0 GiB", "2039 GB/s", "19.5", "156", "312", "1410 MHz"):
        assert shown in rows["a100-80"]
    assert [gpus.find(key).capability for key in rows] == sorted(gpus.find(key).capability for key in rows)


PRINT = (
    "import torch; p = torch.cuda.get_device_properties(0); "
    "print(p.name, p.major, p.minor, p.multi_processor_count, p.total_memory, p.L2_cache_size, p.clock_rate)"
)
CHILD = f"import os, subprocess, sys; os.chdir('/'); subprocess.run([sys.executable, '-c', {PRINT!r}], check=True)"


@pytest.mark.parametrize("code", [PRINT, CHILD], ids=["program", "child elsewhere"])
def test_own_file(tmp_path: Path, code: str) -> None:
    (tmp_path / "my-gpu.toml").write_text(OWN)
    done = run_forked(
        "-m", "torchdevice_cuda", "--driver", "virtual", "--gpu", "./my-gpu.toml", "-c", code, folder=tmp_path
    )
    assert done.out == f"My GPU 8 9 20 {2 << 30} {2 << 20} 2000000\n"


def test_own_rates(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text(f'{OWN}nvlink_gb_s = 100.5\npcie = "5.0 x8"\nsources = ["a data sheet"]\n[tflops]\nfp32 = 20\n')
    gpu = gpus.find(settings.load({"gpu": str(path)}, {}).gpu or "")
    assert (gpu.tflops, gpu.nvlink_gb_s, gpu.pcie, gpu.sources) == ({"fp32": 20.0}, 100.5, "5.0 x8", ("a data sheet",))
    assert gpu.bandwidth_gb_s == 256  # 8 GHz, two transfers per cycle, 16 bytes each


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN.replace("20\n", "0\n"), "multiprocessors = 0 cannot be read; allowed: a whole number from 1 to 1024"),
        (
            OWN.replace("20\n", "true\n"),
            "multiprocessors = True cannot be read; allowed: a whole number from 1 to 1024",
        ),
        (OWN.replace("8.9", "8.4"), 'capability = \'8.4\' cannot be read; allowed: "5.0", "5.2", '),
        (OWN.replace('"8.9"', "8.9"), 'capability = 8.9 cannot be read; allowed: "5.0", "5.2", '),
        (OWN.replace("2 GiB", "much"), "memory = 'much' cannot be read; allowed: a whole number of bytes, or a size"),
        (OWN.replace('"My GPU"', '" "'), "name = ' ' cannot be read; allowed: text"),
        (OWN.replace("l2_kib", "l2_kb"), "there is no key l2_kb; did you mean l2_kib?"),
        (OWN.replace("l2_kib = 2048\n", ""), "l2_kib is missing; allowed: a whole number from 1 to 2097152"),
        (OWN + 'pcie = "4.0"', "pcie = '4.0' cannot be read; allowed: generation and lanes such as \"4.0 x16\""),
        (OWN + 'integrated = "no"', "integrated = 'no' cannot be read; allowed: true, false"),
        (OWN + 'sources = "mine"', "sources = 'mine' cannot be read; allowed: a list of texts"),
        (OWN + "tflops = 3", "tflops = 3 cannot be read; allowed: a table [tflops]"),
        (OWN + "[tflops]\nfp32 = nan", "tflops.fp32 = nan cannot be read; allowed: a number above 0, at most 1000000"),
        (OWN + "[tflops]\nfp31 = 1", "there is no key tflops.fp31; did you mean fp32?"),
        (OWN + "[tflops]\nquick = 1", "there is no key tflops.quick; known: fp64, fp32, "),
        ("name = My GPU", "is no file of TOML: "),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_errors_name_file_key_and_value(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "my-gpu.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(settings.SettingsError) as caught:
        settings.load({"gpu": str(path)}, {})
    words = str(caught.value)
    assert words.startswith(
        f"--gpu={str(path)!r} cannot be read; allowed: a profile such as h200 (--gpu list), or a file"
    )
    assert str(path) in words.partition("; allowed: ")[2] and message in words


def test_error_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(OWN.replace("2000", "-1"))
    done = run_forked("-m", "torchdevice_cuda", "--gpu", "my.toml", "-c", "print(1)", folder=tmp_path, check=False)
    assert (done.status, done.out) == (2, "")
    assert f"{tmp_path / 'my.toml'}: clock_mhz = -1 cannot be read; allowed: a whole number from 1 to 10000" in done.err


def test_no_file_is_read_unless_a_gpu_is_chosen() -> None:
    """Neither the reader nor a parser of TOML is imported."""
    code = (
        "import sys, torch; torch.rand(5, device='cuda').cpu(); print([name for name in sys.modules "
        "if 'toml' in name or name.startswith('torchdevice_cuda.settings.gpus.reading')])"
    )
    command = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_documented_keys() -> None:
    page = (ROOT / "docs" / "gpus.md").read_text(encoding="utf-8")
    assert [name for name in (*reading.KEYS, *model.RATES) if f"`{name}`" not in page] == []
