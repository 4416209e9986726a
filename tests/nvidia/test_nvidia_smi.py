"""The texts of ``nvidia-smi``: lines that NVIDIA's tool printed, with this host's figures in them."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from recorded import read_record

from torchdevice_cuda import monitoring, settings
from torchdevice_cuda.nvidia.nvml.inventory import MIB, Gpu, User
from torchdevice_cuda.nvidia.smi import command, details, fields, table
from torchdevice_cuda.nvidia.smi.fields import Moment
from torchdevice_cuda.nvidia.smi.request import Refusal, parse

DEVICE = monitoring.Device(
    index=0,
    uuid="GPU-e16d248c-c1a9-3302-01d6-82c18e02c9ce",
    name="NVIDIA GeForce RTX 3050 Laptop GPU",
    memory=4094 * MIB,
    capability=(8, 6),
    multiprocessors=16,
    clock_mhz=1897,
    memory_clock_mhz=13365,
    bus=1,
)
USER = User(2094147, "/root/sglang/.venv/bin/sglang::scheduler_TP0_EP0", 1070 * MIB, 27)
MOMENT = Moment([Gpu(DEVICE, (USER,), 40)], at=0.0)
#: What NVIDIA's tool printed beside an H200.
RECORD = read_record("nvidia-smi-580.json")
IDLE = Moment([Gpu(DEVICE, (), None)], at=0.0)


def answer(words: Sequence[str], moment: Moment = MOMENT) -> list[str]:
    request = parse(words)
    return command._TEXTS[request.what](request, moment, True).splitlines()


def test_the_table_has_the_lines_of_nvidias() -> None:
    """But for what a host does not know: drivers 580 and 617 printed these, on an RTX 3050 and on a GB10."""
    lines = table.text(MOMENT).splitlines()
    assert {len(line) for line in lines[1:] if line} == {91}
    assert "|   0  NVIDIA GeForce RTX 3050 ...   Off  |   00000000:01:00.0 Off |                  N/A |" in lines
    assert "|    1070MiB /   4094MiB |     27%      Default |" in lines[9]
    assert any(line.startswith("|    0   N/A  N/A         2094147      C   ...") for line in lines)
    assert "|  No running processes found                                                             |" in table.text(
        IDLE
    )


def test_monitors_print_the_lines_of_nvidias() -> None:
    """Drivers 580 and 595 printed the heads, and the line of a process with its figures."""
    assert answer(["dmon", "-c", "1", "-s", "pucm"]) == [
        "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk     fb   bar1   ccpm ",
        "# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz     MB     MB     MB ",
        "    0      -     40      -     27     27      -      -      -      -  13365   1897   1070      -      - ",
    ]
    assert answer(["dmon", "-c", "1", "-o", "DT"])[0].startswith("#Date        Time         gpu    pwr  gtemp ")
    assert answer(["dmon", "-c", "1", "--format", "csv,noheader,nounit"]) == [
        " 0, -, 40, -, 27, 27, -, -, -, -, 13365, 1897"
    ]
    assert answer(["pmon", "-c", "1", "-s", "um"]) == [
        "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command ",
        "# Idx           #    C/G      %      %      %      %      %      %     MB     MB    name ",
        "    0    2094147     C     27     27      -      -      -      -   1070      -    sglang::schedul",
    ]


def test_queries() -> None:
    words = "--query-gpu=index, gpu_name,memory.used,utilization.gpu,temperature.gpu,power.draw,clocks.gr"
    assert answer([words, "--format=csv"]) == [
        "index, name, memory.used [MiB], utilization.gpu [%], temperature.gpu, power.draw [W], "
        "clocks.current.graphics [MHz]",
        "0, NVIDIA GeForce RTX 3050 Laptop GPU, 1070 MiB, 27 %, 40, [N/A], 1897 MHz",
    ]
    assert answer(
        [words.replace("=", " ", 1).split(" ", 1)[0], "memory.total", "--format", "csv,noheader,nounits"]
    ) == ["4094"]
    assert answer(["--query-compute-apps=pid,used_memory", "--format=csv"]) == [
        "pid, used_gpu_memory [MiB]",
        "2094147, 1070 MiB",
    ]
    assert answer(["--query-compute-apps=pid", "--format=csv,noheader"], IDLE) == []


def test_every_field_can_be_asked_for() -> None:
    for of_users, find, subject in (
        (False, fields.of_gpu, MOMENT.gpus[0]),
        (True, fields.of_user, (MOMENT.gpus[0], USER)),
    ):
        for every in fields.names(of_users):
            heads = {find(name).head for name in every}  # type: ignore[union-attr]
            assert len(heads) == 1
            assert find(every[0]).text(subject, MOMENT, True)  # type: ignore[union-attr]


@pytest.mark.parametrize("sections", [[], ["MEMORY"], ["PIDS", "UTILIZATION"]])
def test_details_as_text_and_as_xml_say_the_same(sections: list[str]) -> None:
    plain = details.text(MOMENT, sections, xml=False)
    root = ElementTree.fromstring(details.text(MOMENT, sections, xml=True))
    leaves = [each.text for each in root.iter() if each.text and each.text.strip()]
    assert leaves
    for value in leaves:
        assert f": {value}\n" in plain
    assert (root.find("gpu/fb_memory_usage/used") is not None) == (not sections or "MEMORY" in sections)
    assert (root.find("gpu/processes/process_info/pid") is not None) == (not sections or "PIDS" in sections)


@pytest.mark.parametrize(("words", "code", "said"), RECORD["refusals"], ids=lambda value: str(value)[:40])
def test_invalid_queries_raise_nvidias_errors(
    words: list[str], code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command.inventory, "now", lambda settings, needs_load: MOMENT.gpus)
    assert command.main(words, settings.load(environ={"TORCHDEVICE_DRIVER": "virtual"})) == code
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(("words", "said"), [(["-l", "soon"], '"soon"'), (["-i"], "-i")])
def test_a_value_that_nvidias_tool_would_guess_at_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(Refusal, match=said) as caught:
        parse(words)
    assert caught.value.code == 2


def test_every_field_of_nvidias_can_be_asked_for() -> None:
    for find, kind in ((fields.of_gpu, "gpu"), (fields.of_user, "users")):
        for names in RECORD["fields"][kind]:
            assert len({found.head for name in names if (found := find(name)) is not None}) == 1, names
            assert all(find(name) is not None for name in names), names
    assert {name: fields.of_gpu(name).head for name in RECORD["heads"]} == RECORD["heads"]  # type: ignore[union-attr]
    assert answer(["--query-gpu=name"]) == ["name", DEVICE.name]


def test_gpus_are_chosen_by_number_uuid_and_bus() -> None:
    for wanted in ("0", DEVICE.uuid, "00000000:01:00.0", "01:00.0"):
        assert command._chosen(MOMENT.gpus, [wanted]) == MOMENT.gpus
    with pytest.raises(Refusal, match="No devices were found") as caught:
        command._chosen(MOMENT.gpus, ["7"])
    assert caught.value.code == 6
