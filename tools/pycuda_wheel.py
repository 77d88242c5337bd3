"""Build a wheel of PyCUDA where there is neither a GPU nor a driver: ``pycuda_wheel.py DIST``.

Needs a C++ compiler and the headers of a CUDA toolkit (``CUDA_HOME``, or /usr/local/cuda); takes
some minutes. PyCUDA is linked with a library that has one call of the driver: the rest is found
when the real one is loaded. cuRAND is left out. The wheels that PyCUDA needs are put beside it, so
that ``pip install --no-index --find-links DIST pycuda`` does where nothing can be downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "2026.1"
_SETTINGS = """
CUDA_ROOT = {cuda!r}
CUDA_INC_DIR = [{include!r}]
CUDADRV_LIB_DIR = [{stub!r}]
CUDADRV_LIBNAME = ['cuda']
CUDA_ENABLE_CURAND = False
USE_SHIPPED_BOOST = True
CXXFLAGS = ['-w']
"""


def build(dist: Path) -> Path:
    """The wheel, which is built unless it is there."""
    for found in sorted(dist.glob(f"pycuda-{VERSION}-*.whl")):
        return found
    cuda = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    if not (cuda / "include" / "cuda.h").is_file():
        raise SystemExit(f"{cuda} has no include/cuda.h; set CUDA_HOME to a CUDA toolkit")
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "install", "-q", "setuptools", "wheel", "numpy"], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([*pip, "download", "-q", "--no-deps", "--no-build-isolation", "--no-binary",
                        ":all:", "-d", name, f"pycuda=={VERSION}"], check=True)
        with tarfile.open(next(folder.glob("pycuda-*.tar.gz"))) as packed:
            packed.extractall(folder, filter="data")
        (folder / "stub").mkdir()
        (folder / "stub.c").write_text("int cuInit(unsigned flags) { return 100; }\n")
        subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1",
                        str(folder / "stub.c"), "-o", str(folder / "stub" / "libcuda.so")],
                       check=True)
        source = folder / f"pycuda-{VERSION}"
        (source / "siteconf.py").write_text(_SETTINGS.format(
            cuda=str(cuda), include=str(cuda / "include"), stub=str(folder / "stub")))
        subprocess.run([*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(dist),
                        str(source)], check=True)
    return next(dist.glob(f"pycuda-{VERSION}-*.whl"))


def complete(dist: Path, wheel: Path) -> None:
    """Put the wheels beside PyCUDA's that it needs."""
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "download", "-q", "--only-binary", ":all:", "--find-links", str(dist),
                    "-d", str(dist), str(wheel)], check=True)


if __name__ == "__main__":
    made = build(Path(sys.argv[1]))
    complete(Path(sys.argv[1]), made)
    print(made)
