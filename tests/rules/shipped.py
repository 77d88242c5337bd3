"""All rule sets that are shipped, as one stack: of every compiler and every device."""

from __future__ import annotations

from tegg.backends.cpu.target import Cpu
from tegg.backends.cuda.target import Cuda
from tegg.backends.metal.target import Metal

from tegg.rewrite.compiler import Bf16, Fp16, Generic, Tf32, Winograd, lowering, stack

COMPILERS = (Generic(), Bf16(), Fp16(), Tf32(), Winograd(), lowering(Cpu().complete()),
             lowering(Cuda(90, blas=True, wgmma=True)), lowering(Metal("M1", "metal")))
STACK = stack(COMPILERS)
