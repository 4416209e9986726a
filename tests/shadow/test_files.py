"""torch.cuda.gds and torch.cuda.tunable: what they read and write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from harness import CPU, VIRTUAL, child
from torch.cuda import tunable
from torch.cuda.gds import GdsFile, gds_deregister_buffer, gds_register_buffer

from .answers import error

TWO = CPU.with_settings(devices=2)


@contextmanager
def file_with_data() -> Iterator[tuple[GdsFile, str]]:
    """Return a file with five float32 and three int16."""
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
#: Products as torch records them.
GEMMS = """\
Validator,PT_VERSION,0.0.0
GemmTunableOp_float_NN,nn_4_3_5_ld_4_5_4
GemmTunableOp_double_TN,tn_4_3_5_ld_5_5_4
GemmStridedBatchedTunableOp_float_NN,nn_4_3_5_B_2_ld_4_5_4
"""


@contextmanager
def working_folder() -> Iterator[None]:
    """Return a new folder to be in; those who use it have the process for themselves."""
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
def test_no_tuning_unless_enabled() -> None:
    assert error(lambda: tunable.tune_gemm_in_file("untuned0.csv")) == ("AssertionError", "TunableOp is not enabled")


@child(CPU, VIRTUAL, alone=True)
def test_products_are_computed_and_not_measured() -> None:
    with working_folder():
        Path("untuned0.csv").write_text(GEMMS)
        tunable.enable()
        tunable.tune_gemm_in_file("untuned0.csv")
        assert tunable.get_results() == ()


@child(CPU, alone=True)
def test_results_of_the_same_torch_are_accepted() -> None:
    version = dict(tunable.get_validators())["PT_VERSION"]
    result = "GemmTunableOp_float_NN,nn_4_3_5_ld_4_5_4,Default,0.250000"
    with working_folder():
        Path("results.csv").write_text(f"Validator,PT_VERSION,{version}\n{result}\n")
        Path("older.csv").write_text(f"Validator,PT_VERSION,0.0.0\n{result}\n")
        assert tunable.read_file("older.csv") is False
        assert tunable.read_file("results.csv") is True
        assert torch._C._cuda_tunableop_write_file("all.csv") is True
        assert torch._C._cuda_tunableop_write_file("no/such/folder") is False
        assert Path("all.csv").read_text() == f"Validator,PT_VERSION,{version}\n"
