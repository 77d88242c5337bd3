"""Vector mathematics: error in units in the last place, special values, scalars, all widths."""

import ctypes
import math
import re
from dataclasses import replace
from decimal import Decimal, localcontext
from importlib.resources import files

import ml_dtypes
import numpy as np
import pytest
from tegg.backends.cpu import toolchain
from tegg.backends.cpu.library import prelude

from tegg.cache import default
from tegg.errors import BackendError

NAMES = ("exp2", "exp", "log2", "log", "sin", "cos", "tanh", "sigmoid", "erf", "sqrt")
BOUND32 = {"log": 1, "sqrt": 0.5, "tanh": 3, "sigmoid": 3, "erf": 3}  # 2 for the others
BOUND64 = {"tanh": 3, "sigmoid": 3, "exp2": 2, "exp": 2}              # 1 for the others
BATCH = 16  # the most lanes there are

_FUNCTION = """
void {n}_f(const float *x, float *y, long c) {{
  for (long i = 0; i < c; i += TEGG_LANES) vf_store(y + i, v_{n}(vf_load(x + i))); }}
void {n}_d(const double *x, double *y, long c) {{
  for (long i = 0; i < c; i += TEGG_LANES) vd_store(y + i, vd_{n}(vd_load(x + i))); }}
void {n}_sf(const float *x, float *y, long c) {{ for (long i = 0; i < c; i++) y[i] = s_{n}(x[i]); }}
void {n}_sd(const double *x, double *y, long c) {{
  for (long i = 0; i < c; i++) y[i] = sd_{n}(x[i]);
}}
"""
_FMA = """
void fma_f(const float *x, float *y, long c) {
  for (long i = 0; i < c; i += TEGG_LANES) {
    vf a = vf_load(x + i); vf_store(y + i, vf_fma(a, a, -(a * a))); } }
void fma_d(const double *x, double *y, long c) {
  for (long i = 0; i < c; i += TEGG_LANES) {
    vd a = vd_load(x + i); vd_store(y + i, vd_fma(a, a, -(a * a))); } }
void fma_sf(const float *x, float *y, long c) {
  for (long i = 0; i < c; i++) y[i] = sf_fma(x[i], x[i], -(x[i] * x[i])); }
void fma_sd(const double *x, double *y, long c) {
  for (long i = 0; i < c; i++) y[i] = sd_fma(x[i], x[i], -(x[i] * x[i])); }
"""
_MOD = """
void mod_f(const float *x, const float *y, float *r, long c) {
  for (long i = 0; i < c; i += TEGG_LANES) vf_store(r + i, vf_mod(vf_load(x + i), vf_load(y + i))); }
"""


def _machines():
    """This CPU, and on x86-64 the narrower ones that it can play."""
    here = toolchain.find()
    yield here.lanes, here
    if "x86-64" in here.features:
        for lanes, flag in ((8, "-march=haswell"), (4, "-march=x86-64")):
            other = replace(here, flags=tuple(flag if f.endswith("=native") else f
                                              for f in here.flags))
            if lanes < here.lanes and _compiles(other):
                yield lanes, other


def _compiles(compiler):
    """Whether the compiler knows the CPU by this name (zig has names of its own)."""
    try:
        compiler.shared_object(default(), {"probe": "int x;"}, "a probe")
    except BackendError:
        return False
    return True


MACHINES = dict(_machines())
_HALVES = """
void put_g(const float *x, uint16_t *y, long c) {
  for (long i = 0; i < c; i += TEGG_LANES) vg_store(y + i, vf_load(x + i)); }
void pair_g(const float *x, uint16_t *y, long c) {
  for (long i = 0; i < c; i += 2 * TEGG_LANES)
    vg_store_pair(y + i, vf_load(x + i), vf_load(x + i + TEGG_LANES)); }
void past_g(const float *x, uint16_t *y, long c) {
  for (long i = 0; i < c; i += 2 * TEGG_LANES)
    vg_stream_pair(y + i, vf_load(x + i), vf_load(x + i + TEGG_LANES), (uintptr_t)y % 64 == 0);
  stream_fence(); }
void get_g(const uint16_t *x, float *y, long c) {
  for (long i = 0; i < c; i += TEGG_LANES) vf_store(y + i, vg_load(x + i)); }
void put_h(const float *x, uint16_t *y, long c) {
  for (long i = 0; i < c; i += TEGG_LANES) vh_store(y + i, vf_load(x + i)); }
void round_g(const float *x, float *y, long c) {
  for (long i = 0; i < c; i += TEGG_LANES) vf_store(y + i, vg_round(vf_load(x + i))); }
void round_h(const float *x, float *y, long c) {
  for (long i = 0; i < c; i += TEGG_LANES) vf_store(y + i, vh_round(vf_load(x + i))); }
"""


class Functions:
    """The functions compiled for one width, applied to arrays."""

    def __init__(self, lanes: int, compiler: toolchain.Toolchain) -> None:
        text = prelude(lanes) + "\n" + "".join(_FUNCTION.format(n=n) for n in NAMES) + _FMA + _MOD
        text += _HALVES
        text += "const struct rt_table *tegg_rt;\n"
        self.library = ctypes.CDLL(str(compiler.shared_object(default(), {"m": text}, "vecmath")))

    def __call__(self, name: str, x: np.ndarray, scalar: bool = False) -> np.ndarray:
        x = np.resize(x, -(-len(x) // BATCH) * BATCH) if len(x) % BATCH else x
        y = np.empty_like(x)
        f = self.library[f"{name}_{'s' * scalar}{x.dtype.char}"]
        f(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p),
          ctypes.c_long(len(x)))
        return y


@pytest.fixture(scope="module", params=sorted(MACHINES))
def run(request):
    return Functions(request.param, MACHINES[request.param])


PI = Decimal("3.14159265358979323846264338327950288419716939937510")


def erf_of(x):
    """By its series, 2 / sqrt(pi) times the sum of (-1)^n x^(2n+1) / (n! (2n+1)), to 50 digits."""
    def one(v: float) -> np.longdouble:
        if not abs(v) < 7:
            return np.longdouble(math.erf(v))
        with localcontext() as digits:
            digits.prec = 50
            d = Decimal(v)
            total = power = d
            n = 0
            while abs(power) > abs(total) * Decimal("1e-30"):
                n += 1
                power *= -d * d / n
                total += power / (2 * n + 1)
            return np.longdouble(str(total * 2 / PI.sqrt()))
    return np.array([one(v) for v in x.tolist()], np.longdouble)


REFERENCE = {"erf": lambda x: np.array([math.erf(v) for v in x.tolist()]),
             "sigmoid": lambda x: 1 / (1 + np.exp(-x))}


def reference(name, x):
    with np.errstate(all="ignore"):
        return REFERENCE.get(name, getattr(np, name, None))(x)


def error(name, got, want):
    """Units of the last place of the result's type; 0 for equal specials and flushed denormals."""
    tiny = np.finfo(got.dtype).tiny
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        unit = np.spacing(np.maximum(np.abs(rounded), tiny)).astype(want.dtype)
        e = np.abs(got.astype(want.dtype) - want) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    flushed = (np.abs(want) < tiny) & (got == 0) & (name in ("exp", "exp2", "sigmoid"))
    return np.where(same | flushed, 0, np.where(np.isnan(e), np.inf, e))


def floats():
    """All exponents and signs with a stride of mantissas, and the middle of the range densely."""
    bits = np.arange(0, 2**32, 20011, dtype=np.int64).astype(np.uint32).view(np.float32)
    random = np.random.default_rng(0)
    return np.concatenate([bits, random.uniform(-20, 20, 40000).astype(np.float32),
                           np.float32(1) + np.arange(-500, 500, dtype=np.float32) * 2**-20,
                           np.arange(-6000, 6000, dtype=np.float32) * np.float32(math.pi / 2)])


def doubles():
    random = np.random.default_rng(1)
    return np.concatenate([random.uniform(-720, 720, 20000), random.uniform(-2, 2, 20000),
                           random.uniform(0.5, 1, 6000) * 2.0 ** random.integers(-1070, 1020, 6000),
                           1 + random.uniform(-1, 1, 2000) * 2.0**-20,
                           random.uniform(-2.0**21, 2.0**21, 6000),
                           np.arange(-6000, 6000) * (math.pi / 2),
                           random.integers(-2**20, 2**20, 6000) * (math.pi / 2)])


@pytest.mark.parametrize("name", NAMES)
def test_errors_in_float(run, name):
    x = floats()
    if name == "erf":
        x = x[:: 8]
    x = np.resize(x, len(x) // BATCH * BATCH)
    with np.errstate(invalid="ignore"):  # signalling NaN among the bit patterns
        e = error(name, run(name, x), reference(name, x.astype(np.float64)))
    worst = int(np.argmax(e))
    assert e[worst] <= BOUND32.get(name, 2), (name, x[worst], e[worst])


@pytest.mark.parametrize("name", NAMES)
def test_errors_in_double(run, name):
    x = doubles()
    if name == "erf":
        x = np.concatenate([x[::32], np.random.default_rng(2).uniform(-6.5, 6.5, 4000)])
    x = np.resize(x, len(x) // BATCH * BATCH)
    want = erf_of(x) if name == "erf" else reference(name, x.astype(np.longdouble))
    e = error(name, run(name, x), want)
    worst = int(np.argmax(e))
    assert e[worst] <= BOUND64.get(name, 1), (name, x[worst], e[worst])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_scalars_are_lanes(run, name, dtype):
    x = floats().astype(dtype) if dtype is np.float32 else doubles()
    x = np.resize(x[::37], 4096)
    assert run(name, x).tobytes() == run(name, x, scalar=True).tobytes()


INF, NAN = math.inf, math.nan
SPECIAL = {
    "exp2": [(0, 1), (-0.0, 1), (-INF, 0), (INF, INF), (NAN, NAN), (10, 1024), (-1e30, 0),
             (1e30, INF), (-20000, 0), (20000, INF)],
    "exp": [(0, 1), (-0.0, 1), (-INF, 0), (INF, INF), (NAN, NAN), (-1e9, 0), (1e9, INF)],
    "log2": [(1, 0), (0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (-INF, NAN), (NAN, NAN),
             (1024, 10), (0.125, -3), (2.0**-140, -140)],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (-INF, NAN), (NAN, NAN)],
    "sin": [(0, 0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (1e-30, 1e-30),
             (-1e-30, -1e-30), (50, 1), (-50, -1)],
    "sigmoid": [(0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (NAN, NAN), (-1000, 0), (1000, 1)],
    "erf": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (7, 1), (-7, -1)],
    "sqrt": [(0, 0), (-0.0, -0.0), (INF, INF), (-1, NAN), (NAN, NAN), (4, 2), (0.25, 0.5)]}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_special_values_are_exact(run, name, dtype):
    for x, want in SPECIAL[name]:
        got = run(name, np.full(BATCH, x, dtype))
        expected = np.full(BATCH, want, dtype)
        np.testing.assert_array_equal(got, expected, f"{name}({x})")
        if want == 0:
            assert (np.signbit(got) == np.signbit(expected)).all(), f"{name}({x})"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_there_are_no_denormal_results(run, name, dtype):
    top = np.log2(np.finfo(dtype).tiny) * (math.log(2) if name == "exp" else 1)
    x = np.linspace(top - 60, top + 1, 4096).astype(dtype)
    y = run(name, x)
    assert ((y == 0) | (y >= np.finfo(dtype).tiny)).all() and (y[x < top - 0.001] == 0).all()


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_angles_are_right_beside_small_ones(run, name):
    x = np.resize(np.float32([2**18, 2**18 + 0.0625, 1e6, 1.0001e6, 1e9, 0.5, 1e20, 3.4e38, -2e7,
                              1]), 64)
    e = error(name, run(name, x), reference(name, x.astype(np.float64)))
    assert e.max() <= 2


def test_a_nan_keeps_to_its_lane(run):
    for name in NAMES:
        x = np.full(BATCH, 0.75, np.float32)
        want = run(name, x)
        x[3] = want[3] = np.nan
        np.testing.assert_array_equal(run(name, x), want, name)


@pytest.mark.parametrize("dtype, least", [(np.float32, 2.0**-24), (np.float64, 2.0**-54)])
def test_multiply_add(dtype, least):
    """Rounded once where the CPU has the instruction: what a product loses is seen."""
    here = toolchain.find()
    run = Functions(here.lanes, here)
    x = np.full(BATCH, dtype(1 + np.sqrt(least)), dtype)
    lost = least if "fma" in here.features else 0
    assert (run("fma", x) == lost).all() and (run("fma", x, scalar=True) == lost).all()


# ---- remainders
def pairs():
    """All magnitudes by all magnitudes, near ones densely, multiples and what is next to them."""
    random = np.random.default_rng(3)
    bits = random.integers(0, 2**32, (2, 60000), dtype=np.uint32).view(np.float32)
    near = (random.standard_normal((2, 60000)) * [[1000.0], [1.0]]).astype(np.float32)
    y = random.uniform(0.5, 2, 60000).astype(np.float32)
    whole = (random.integers(0, 2**30, 60000) * y.astype(np.float64)).astype(np.float32)
    beside = np.nextafter(whole, np.float32(np.inf) * random.choice([-1, 1], 60000).astype(np.float32))
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38, 2.0**29,
                        2.0**-126, 0.3, 5.5], np.float32)
    x, z = (v.ravel() for v in np.meshgrid(special, special))
    parts = [bits, near, (whole, y), (beside, y), (x, z)]
    return tuple(np.concatenate([p[i] for p in parts]) for i in (0, 1))


def test_remainders_are_exact(run):
    """Every bit is that of fmod, which rounds nothing."""
    x, y = pairs()
    x, y = (np.resize(v, len(v) // BATCH * BATCH) for v in (x, y))
    got, f = np.empty_like(x), run.library.mod_f
    f(*(v.ctypes.data_as(ctypes.c_void_p) for v in (x, y, got)), ctypes.c_long(len(x)))
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), [(x[i], y[i], got[i], want[i]) for i in np.flatnonzero(~same)[:5]]


# ---- halves
def adversarial():
    """Floats of all exponents, subnormal ones and NaN among them, and those beside ties, mixed."""
    base = np.arange(0, 2**32, 2**15 * 3 + 1, dtype=np.int64)
    ties = np.arange(0, 2**32, 2**20, dtype=np.int64) + 2**15
    bits = np.concatenate([base, ties, ties - 1, ties + 1, np.arange(0, 2**24, 9973), [
        0, 2**31, 1, 2**31 + 1, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffffffff]])
    x = np.random.default_rng(5).permutation(bits).astype(np.uint32).view(np.float32)
    x = np.resize(x, len(x) // (2 * BATCH) * (2 * BATCH))
    return x


def call(run, name, x, to):
    run.library[name](*(v.ctypes.data_as(ctypes.c_void_p) for v in (x, to)), ctypes.c_long(len(x)))


@pytest.mark.parametrize("letter, half", [("g", ml_dtypes.bfloat16), ("h", np.float16)])
def test_halves_are_rounded_to_nearest_even(run, letter, half):
    """Stored or kept in a register, subnormal numbers, ties, infinities and NaN included; one number
    that needs another way than those beside it changes none of them."""
    x = adversarial()
    with np.errstate(all="ignore"):
        want = x.astype(half)
    stored, kept = np.empty(len(x), half), np.empty_like(x)
    for f, to in ((f"put_{letter}", stored), (f"round_{letter}", kept)):
        call(run, f, x, to)
    for got in (stored, kept.astype(half)):
        same = (got.view(np.uint16) == want.view(np.uint16)) | (np.isnan(got) & np.isnan(want))
        assert same.all(), [(x[i], got[i], want[i]) for i in np.flatnonzero(~same)[:5]]
        assert (np.isnan(got) == np.isnan(x)).all()
    exact = kept.astype(half).astype(np.float32)
    assert ((exact == kept) | np.isnan(kept)).all()


@pytest.mark.parametrize("name", ["pair_g", "past_g"])
def test_two_vectors_are_stored_as_one_after_the_other(run, name):
    """With the same bits, wherever the number is that needs another way than those beside it."""
    x = adversarial()
    alone = np.zeros(len(x), np.uint16)
    call(run, "put_g", x, alone)
    room = np.zeros(len(x) + 33, np.uint16)
    begin = -room.ctypes.data % 64 // 2
    for to in (room[begin:begin + len(x)], room[begin + 1:begin + 1 + len(x)]):
        to[...] = 0
        call(run, name, x, to)
        wrong = np.flatnonzero(to != alone)
        assert not len(wrong), [(x[i], to[i], alone[i]) for i in wrong[:5]]


def test_every_bfloat16_is_read(run):
    bits = np.random.default_rng(7).permutation(2**16).astype(np.uint16)
    got = np.empty(len(bits), np.float32)
    call(run, "get_g", bits, got)
    assert (got.view(np.uint32) == bits.astype(np.uint32) << 16).all()


def test_constants_of_floats_are_floats():
    """GCC takes no NaN of double for a vector of floats, from 13 on; older ones and clang do."""
    text = files("tegg.backends.cpu").joinpath("vecmath.h").read_text(encoding="utf-8")
    numbers = re.findall(r"M_SPLAT\(vf, (-?[0-9][^,)]*)\)", text)
    assert len(numbers) >= 20 and all(n.endswith("f") for n in numbers)
    (special,) = re.findall(r"LOG_SPECIAL\(vf, .*", text)
    assert "__builtin_inff()" in special and "__builtin_nanf(" in special
