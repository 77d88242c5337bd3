"""Emitted C and plans as files: a change of either shows in review. ``--update-golden`` rewrites."""

from pathlib import Path

import pytest
from tegg.backends.cpu.contraction import lower_contraction
from tegg.backends.cpu.emit import C

from tegg.testing.draw import Draw
from interpreted import compiled
from tegg.dim import dim
from tegg.dtype import f32
from tegg.kernel.contraction_shape import Tile
from tegg.kernel.lower import lower
from tegg.bits import bits_of

FOLDER = Path(__file__).parent / "golden"
EPS = bits_of(1e-5, f32)


def gelu_chain(g):
    return g.named("Gelu", g.add(g.mul(g.x(64, 96), g.x(96)), g.x(96))),


def softmax_rows(g):
    return g.op("Softmax", g.x(32, 100), 1),


def layer_norm_rows(g):
    x = g.add(g.x(32, 128), g.x(32, 128))
    return g.add(g.mul(g.op("Normalize", x, 1, EPS), g.x(128)), g.x(128)), x


def heads_transposed(g):
    return g.permute(g.reshape(g.x(2, 8, 64), (2, 8, 4, 16)), (0, 2, 1, 3)),


def symbolic_rows(g):
    n = dim("n", min=1, max=4096, hint=512)
    return g.op("Softmax", g.x(n, 64), 1),


def halves(g):
    return g.add(g.x(64, 32, dtype="f16"), g.x(64, 32, dtype="f16")),


KERNELS = {f.__name__: f for f in (gelu_chain, softmax_rows, layer_norm_rows, heads_transposed,
                                   symbolic_rows, halves)}


def compare(path: Path, text: str, request) -> None:
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert path.exists(), f"{path} is missing; run pytest --update-golden and review it"
    assert text == path.read_text(), (f"{path.name} differs; if that is meant, run pytest "
                                      f"--update-golden and review the change")


@pytest.mark.parametrize("name", KERNELS)
def test_emitted_kernels(name, request):
    g = Draw()
    code = lower(g, KERNELS[name](g), "k", C(16))
    compare(FOLDER / "kernels" / f"{name}.c", f"// {code.work}\n{code.source}", request)


def test_an_emitted_product(request):
    g = Draw()
    product = g.op("Contract", g.x(64, 48), g.x(96, 48), "m,k;n,k;m,n", (64, 96))
    out = g.named("Relu", g.add(product, g.x(96)))
    code = lower_contraction(g, [out], [product], "k", C(16), Tile("packed", 8, 3), constant={1})
    stages = [f"{s.function} reads {sorted(s.reads)} writes {sorted(s.writes)}"
              for s in code.stages]
    text = "\n".join([f"// {code.work}", f"// {code.notes}", *(f"// {s}" for s in stages),
                      code.source])
    compare(FOLDER / "kernels" / "product.c", text, request)


def test_a_plan(request):
    g = Draw()
    s = g.input("s", (8, 8), "f32")
    x = g.x(8, 8)
    y = g.add(g.mul(s, x), g.op("Softmax", x, 1))
    g.outputs.update(y=y, old=s)
    g.updates[0] = g.add(s, y)
    compare(FOLDER / "plan.txt", compiled(g).plan.show() + "\n", request)
