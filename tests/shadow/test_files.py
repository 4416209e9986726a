"""torch.cuda.gds and torch.cuda.tunable: what they read and write."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from harness import CPU, child
from torch.cuda import tunable
from torch.cuda.gds import GdsFile, gds_deregister_buffer, gds_register_buffer

from .answers import error

TWO = CPU.but(devices=2)


@contextmanager
def file_with_data() -> Iterator[tuple[GdsFile, str]]:
    """A file with five float32 and three int16."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data.bin")
        file = GdsFile(path, os.O_CREAT | os.O_RDWR)
        assert file.save_storage(torch.arange(5.0).untyped_storage()) is None
        assert file.save_storage(torch.arange(3, dtype=torch.int16).untyped_storage(), offset=20) is None
        yield file, path


# ------------------------------------------------------------------------------ gds
@child(CPU)
def test_storages_are_written_one_after_the_other() -> None:
    with file_with_data() as (_, path):
        assert os.path.getsize(path) == 26


@child(CPU)
def test_storages_are_read_back() -> None:
    floats, integers = torch.zeros(5), torch.zeros(3, dtype=torch.int16)
    with file_with_data() as (file, _):
        file.load_storage(floats.untyped_storage())
        file.load_storage(integers.untyped_storage(), offset=20)
    assert floats.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert integers.tolist() == [0, 1, 2]


@child(CPU)
def test_past_the_end_of_the_file_nothing_is_read() -> None:
    tail = torch.full((4,), -1, dtype=torch.int16)
    with file_with_data() as (file, _):
        file.load_storage(tail.untyped_storage(), offset=22)
    assert tail.tolist() == [1, 2, -1, -1]


@child(CPU)
def test_buffers_are_registered_once() -> None:
    storage = torch.arange(5.0).untyped_storage()
    assert gds_register_buffer(storage) is None
    assert gds_deregister_buffer(storage) is None
    with pytest.raises(RuntimeError):
        gds_deregister_buffer(storage)


@child(CPU)
def test_a_handle_is_registered_once() -> None:
    storage = torch.arange(5.0).untyped_storage()
    with file_with_data() as (file, _):
        assert error(file.register_handle)[1] == "Cannot register a handle that is already registered."
        file.deregister_handle()
        assert error(file.deregister_handle)[1] == "Cannot deregister a handle that is not registered."
        assert error(lambda: file.load_storage(storage))[1] == "Cannot load data from a file that is not registered."
        assert error(lambda: file.save_storage(storage))[1] == "Cannot save data to a file that is not registered."
        file.register_handle()
        file.load_storage(storage)


@child(CPU)
def test_files_are_opened_as_asked() -> None:
    with file_with_data() as (_, path):
        reader = GdsFile(path, os.O_RDONLY)
        with pytest.raises(RuntimeError):
            reader.save_storage(torch.arange(5.0).untyped_storage())
        with pytest.raises(FileNotFoundError):
            GdsFile(path + ".none", os.O_RDONLY)


@child(CPU)
def test_only_memory_of_the_gpu_is_read_into() -> None:
    with file_with_data() as (file, _):
        assert error(lambda: file.load_storage(torch.UntypedStorage(4, device="meta"))) == (
            "RuntimeError",
            "CUDAGuardImpl initialized with non-CUDA DeviceType: meta",
        )


@child(CPU)
def test_a_file_is_closed_with_its_object() -> None:
    with file_with_data() as (_, path):
        file = GdsFile(path, os.O_RDONLY)
        number = file.fd
        os.fstat(number)
        del file
        with pytest.raises(OSError):
            os.fstat(number)


# -------------------------------------------------------------------------- tunable
#: GEMMs as torch records them; the last three are of kinds that are not tuned offline.
GEMMS = """\
Validator,PT_VERSION,0.0.0
GemmTunableOp_float_NN,nn_4_3_5_ld_4_5_4
GemmTunableOp_double_TN,tn_4_3_5_ld_5_5_4
GemmStridedBatchedTunableOp_float_NN,nn_4_3_5_B_2_ld_4_5_4
GemmAndBiasTunableOp_float_TN,tn_4_3_5_ld_5_5_4
GemmTunableOp_float_NN,nn_4_3_5_ld_9_8_7
ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_BFloat16_TN,tn_16_16_16_ld_16_16_16_rw_0_bias_None
GemmTunableOp_float_NT,nt_4_1_5_ld_4_1_4
NovelTunableOp_float_NN,nn_4_3_5_ld_4_5_4
"""
TUNED = [line.split(",") for line in GEMMS.split()[1:7]]


@contextmanager
def working_folder() -> Iterator[None]:
    """A new folder to be in; those who use it have the process for themselves."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        yield
        os.chdir(before)


@child(CPU)
def test_defaults() -> None:
    assert tunable.get_filename() == ""
    assert tunable.get_max_tuning_duration() == 30
    assert tunable.get_max_tuning_iterations() == 100
    assert tunable.get_results() == ()
    assert tunable.is_enabled() is False
    assert tunable.tuning_is_enabled() is True
    assert tunable.record_untuned_is_enabled() is False
    assert tunable.get_rotating_buffer_size() == torch.cuda.get_device_properties().L2_cache_size
    assert dict(tunable.get_validators()) == {"PT_VERSION": torch.__version__.split("+")[0]}


@child(TWO)
def test_settings_are_kept() -> None:
    tunable.enable()
    tunable.tuning_enable(False)
    tunable.record_untuned_enable()
    tunable.set_max_tuning_duration(-5)
    tunable.set_max_tuning_iterations(7)
    tunable.set_rotating_buffer_size(2)
    assert tunable.is_enabled() is True
    assert tunable.tuning_is_enabled() is False
    assert tunable.record_untuned_is_enabled() is True
    assert tunable.get_max_tuning_duration() == 0
    assert tunable.get_max_tuning_iterations() == 7
    assert tunable.get_rotating_buffer_size() == 2 * 1024 * 1024
    assert tunable.set_numerical_check_tolerances(True, 1e-3) is None


@child(TWO)
@pytest.mark.parametrize("name, expected", [("a.b.csv", "a.b1.csv"), ("a%d.csv", "a1.csv"), ("plain", "plain1")])
def test_the_number_of_the_device_in_the_file_name(name: str, expected: str) -> None:
    with torch.cuda.device(1):
        tunable.set_filename(name, insert_device_ordinal=True)
        assert tunable.get_filename() == expected


@child(TWO)
def test_a_switch_is_no_number() -> None:
    with pytest.raises(RuntimeError, match="cuda_tunableop_enable expects a bool, but got int"):
        tunable.enable(3)


@child(TWO)
def test_a_file_that_is_not_there() -> None:
    assert tunable.read_file("no such file") is False


@child(CPU.within(PYTORCH_TUNABLEOP_ENABLED="1", PYTORCH_TUNABLEOP_TUNING="0"))
def test_variables_win() -> None:
    tunable.enable(False)
    tunable.tuning_enable(True)
    assert tunable.is_enabled() is True
    assert tunable.tuning_is_enabled() is False


@child(CPU)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("part", [False, True])
def test_matrices_to_tune_with(transposed: bool, part: bool) -> None:
    options = (transposed, True, torch.float32, "cpu")
    pair = tunable._create_matrices(3, 4, 5, 6, 7, 8, *options, subMatrix=part)
    batches = tunable._create_batch_matrices(3, 4, 5, 2, 6, 7, 8, *options, subMatrix=part)
    assert [tuple(made.shape) for made in pair] == [(3, 5), (5, 4)]
    assert [tuple(made.shape) for made in batches] == [(2, 3, 5), (2, 5, 4)]


@child(CPU)
def test_nothing_is_tuned_unless_enabled() -> None:
    assert error(lambda: tunable.tune_gemm_in_file("untuned0.csv")) == ("AssertionError", "TunableOp is not enabled")


@child(CPU, alone=True)
def test_a_file_is_tuned() -> None:
    with working_folder():
        Path("untuned0.csv").write_text(GEMMS)
        tunable.enable()
        tunable.set_max_tuning_iterations(2)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            tunable.tune_gemm_in_file("untuned0.csv")
        lines = Path(tunable.get_filename()).read_text().splitlines()
        results = tunable.get_results()
        version = dict(tunable.get_validators())["PT_VERSION"]
        tunable.set_filename("joined0.csv")
        assert [str(one.message) for one in seen] == [
            "Offline tuning is not supported for this GEMM. Use online tuning instead. Skipped tuning for: "
            "nt_4_1_5_ld_4_1_4"
        ]
        assert lines[0] == f"Validator,PT_VERSION,{version}"
        assert [line.split(",")[:3] for line in lines[1:]] == [[*gemm, "Default"] for gemm in TUNED]
        assert [list(result[:3]) for result in results] == [[*gemm, "Default"] for gemm in TUNED]
        assert all(result[3] > 0 for result in results)
        assert tunable.get_filename() == "joined0.csv"
        assert tunable.read_file("tunableop_results0.csv") is True
        assert tunable.read_file("untuned0.csv") is False, "its validator is of another version"
        assert torch._C._cuda_tunableop_write_file("all.csv") is True
        assert torch._C._cuda_tunableop_write_file("no/such/folder") is False
        assert tunable.read_file("all.csv") is True


@child(TWO, alone=True)
def test_files_of_several_devices_are_tuned() -> None:
    lines = GEMMS.split()
    with working_folder():
        Path("untuned0.csv").write_text("\n".join(lines[:3]) + "\n")
        Path("untuned1.csv").write_text("\n".join(lines[1:5]) + "\n")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            tunable.mgpu_tune_gemm_in_file("untuned?.csv", 2)
        full = [Path(f"tunableop_results_full{number}.csv").read_text() for number in range(2)]
        assert [str(one.message) for one in seen] == ["TunableOp was disabled. Trying to enable now."]
        assert sorted(name for name in os.listdir(".") if "results" in name) == [
            f"tunableop_results{name}.csv" for name in ("0", "1", "_full0", "_full1")
        ]
        assert sorted(line.split(",")[0] for line in full[0].splitlines()) == sorted(
            ["Validator", *(line.split(",")[0] for line in lines[1:5])]
        )
        assert full[1] == full[0]
        assert torch.cuda.current_device() == 0
        assert error(lambda: tunable.mgpu_tune_gemm_in_file("untuned?.csv", 3)) == (
            "AssertionError",
            "num_gpus must be between 1 and 2, got 3",
        )
