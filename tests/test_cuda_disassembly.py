"""What machine code is said to be made of."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from tegg.backends.cuda import disassembly, nvrtc
from tegg.backends.cuda.disassembly import instructions_of, read
from tegg.backends.cuda.resources import resources_of

from tegg.errors import BackendError

TEXT = """
.text.first:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/              @!P0 LDG.E R4, desc[UR4][R2.64] ;
        /*0030*/              @P0  LDG.E.U16 R4, desc[UR4][R2.64] ;
        /*0040*/                   LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64] ;
        /*0050*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0060*/                   STL.64 [R1], R4 ;
        /*0070*/                   STG.E.64 desc[UR4][R2.64], R4 ;
.text.second:
        /*0000*/                   EXIT ;
"""


def test_counts():
    first, second = read(TEXT)
    assert (first.kernel, first.count, first.tensor, first.spills) == ("first", 8, 1, 1)
    assert first.loads == {128: 1, 32: 1, 16: 1} and first.stores == {64: 1}
    assert first.copies == {128: 1} and second.count == 1 and not second.loads
    assert first.show() == ("first: 8 instructions; loads 1 of 16, 1 of 32, 1 of 128 bits; stores "
                            "1 of 64 bits; copies 1 of 128 bits; 1 tensor; 1 spills")


def test_what_the_assembler_says():
    log = """ptxas info    : Compiling entry function 'a' for 'sm_90'
ptxas info    : Function properties for a
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compiling entry function 'b' for 'sm_90'
ptxas info    : Used 16 registers
"""
    a, b = resources_of(log)
    assert (a.registers, a.shared_bytes, a.stack_bytes) == (255, 1024, 8)
    assert (a.spill_stores, a.spill_loads) == (4, 12) and b.registers == 16 and not b.shared_bytes
    assert a.show() == "a: 255 registers, 1024 bytes shared, 16 bytes spilled"


@pytest.fixture
def fresh():
    disassembly.disassembler.cache_clear()
    yield
    disassembly.disassembler.cache_clear()


def test_no_disassembler(fresh, monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    monkeypatch.setattr(disassembly.Path, "is_file", lambda _: False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(BackendError, match=r"pip install 'tegg\[nvdisasm\]'"):
        instructions_of(b"")


def test_a_tool_that_wheels_unpacked(fresh, monkeypatch, tmp_path):
    tool = tmp_path / "nvidia" / "cu13" / "bin" / "nvdisasm"
    tool.parent.mkdir(parents=True)
    tool.write_text(f"#!/bin/sh\ncat <<'X'\n{TEXT}\nX\n")  # not executable
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert [k.kernel for k in instructions_of(b"code")] == ["first", "second"]
    disassembly.disassembler.cache_clear()
    tool.write_text("#!/bin/sh\necho no such thing >&2; exit 1\n")
    with pytest.raises(BackendError, match="nvdisasm cannot read the machine code: no such thing"):
        instructions_of(b"code")


def test_real_machine_code():
    try:
        disassembly.disassembler()
    except BackendError:
        pytest.skip("nvdisasm is not installed")
    if nvrtc.find() is None:
        pytest.skip("NVRTC is not installed")
    source = ('extern "C" __global__ void __launch_bounds__(64) f(const float4 *a, float4 *b) '
              '{ b[threadIdx.x] = a[threadIdx.x]; }')
    for architecture in (75, 80, 90):
        (made,) = instructions_of(nvrtc.find().compile(source, architecture)[0])
        assert made.kernel == "f" and made.loads == {128: 1} and made.stores == {128: 1}
        assert made.spills == made.tensor == 0


def test_the_report_of_a_bundle(monkeypatch, tmp_path, capsys):
    file = Path(__file__).parent.parent / "benchmarks" / "gpu_bundle" / "report.py"
    spec = importlib.util.spec_from_file_location("report", file)
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    at = tmp_path / "programs" / "sm_90" / "one"
    at.mkdir(parents=True)
    (at / "sm_90.cubin").write_bytes(b"")
    (at / "program.json").write_text('{"name": "one", "resources": {"sm_90": ["first: 9 registers"]}}')
    monkeypatch.setattr(report, "instructions_of", lambda _: read(TEXT))
    assert list(report.lines(tmp_path, "two")) == []
    first, second, _ = report.lines(tmp_path, "")
    assert first == "one, sm_90" and second.endswith("1 spills | 9 registers")

    def fails(_):
        raise BackendError("nvdisasm is not here")

    monkeypatch.setattr(report, "instructions_of", fails)
    monkeypatch.setattr(sys, "argv", ["report.py", str(tmp_path)])
    assert report.main() == 2 and "no report: nvdisasm is not here" in capsys.readouterr().out
