"""What NumPy, PyTorch and tegg make of special values: tables of docs/ops.md.

NumPy's and ours are computed when the page is made; PyTorch's are data of one version of it:

    python tools/ops_special.py      # writes tools/ops_special.json; needs torch
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tegg
from tegg.ir.oracle import evaluate
from tegg.ops.examples import example
from tegg.ops.public import PUBLIC, PublicOp, names_of

DATA = Path(__file__).parent / "ops_special.json"
NAN, INF = float("nan"), float("inf")
Cases = tuple[tuple[list[float], ...], ...]  # of each call its operands

_ONE: Cases = (([NAN],), ([INF],), ([-INF],), ([-0.0],), ([0.0],))
_TWO: Cases = (([NAN], [1]), ([1], [NAN]), ([INF], [INF]), ([INF], [-INF]), ([INF], [0.0]),
               ([0.0], [-0.0]), ([-0.0], [0.0]), ([1], [0.0]), ([-1], [0.0]), ([0.0], [0.0]),
               ([1], [INF]), ([2], [2]))
_MANY: Cases = (([],), ([3],), ([1, NAN, 2],), ([1, INF, -INF],), ([-INF, -INF],), ([-0.0, 0.0],),
                ([2, 1, 2],))
_FOUR: Cases = (([1, NAN, 2, 3],), ([1, INF, 2, -INF],), ([-INF, -INF, -INF, -INF],),
                ([-0.0, 0.0, 0.0, -0.0],), ([2, 2, 2, 2],))
_LONG = ["sum", "mean", "prod", "max", "min", "var", "std", "logsumexp", "any", "all", "argmax",
         "argmin", "norm"]
_WRITTEN = ["scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_put",
            "scatter_nd"]  # the second operand to the first place of the first one
_POOLS = [(n, f"{kind}_pool{n}d") for n in (1, 2, 3)
          for kind in ("max", "avg", "adaptive_max", "adaptive_avg")]
_SHOWN: dict[str, Cases] = {
    **{name: _FOUR for _, name in _POOLS},
    "lerp": _TWO, "glu": _TWO, "threshold": _ONE, "trace": _MANY, "instance_norm": _FOUR,
    "prelu": (([NAN], [1]), ([INF], [0.0]), ([-INF], [0.0]), ([-0.0], [1]), ([-1], [NAN])),
    "interpolate": (([3],), ([1, NAN],), ([1, INF],), ([INF, -INF],), ([-0.0, -0.0],)),
    "rope": (([INF, 1], [1], [0.0]), ([NAN, 1], [1], [1]), ([-0.0, 0.0], [1], [0.0])),
    "pow": _TWO, "gelu": _ONE, "nan_to_num": _ONE, "clamp": _ONE,
    "searchsorted": (([1, 2, 2, NAN], [2]), ([1, 2, 2, NAN], [NAN]), ([1, 2, 2, NAN], [INF]),
                     ([-0.0, 1], [0.0]), ([], [1])),
    **dict.fromkeys(["dot", "matmul", "mm", "bmm", "mv", "linear", "einsum", "addmm", "baddbmm"],
                    (([], []), ([3], [2]), ([INF], [0.0]), ([NAN, 1], [0.0, 1]),
                     ([INF, 1], [1, -INF]), ([-0.0], [1]), ([3e38, 3e38], [1, 1]),
                     ([2, 2], [1, -1]))),
    "outer": (([], [1]), ([INF], [0.0, 1]), ([NAN, -0.0], [0.0, 1])),
    **dict.fromkeys(["cosine_similarity", "pairwise_distance", "cdist"],
                    (([], []), ([3], [3]), ([NAN, 1], [0.0, 1]), ([INF, 1], [1, 1]),
                     ([INF, 1], [INF, 1]), ([0.0, 0.0], [-0.0, 0.0]), ([2, 1], [2, 1]))),
    **dict.fromkeys([f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)],
                    (([], [1]), ([3], [2]), ([1, NAN, 2], [1, 1]), ([1, INF, 2], [0.0, 1]),
                     ([INF, -INF, 1], [1, 1]), ([-0.0, -0.0], [1, 1]), ([2, 2], [1, -1]))),
    **dict.fromkeys(_WRITTEN, (([1, 2], []), ([1], [2]), ([1, 2], [NAN, 5]), ([1, 2], [5, NAN]),
                               ([INF, 2], [-INF, 1]), ([-0.0, 1], [-0.0, 0.0]), ([7, 1], [7, 7]))),
    "batch_norm": (([], [0.0], [1]), ([NAN], [0.0], [1]), ([INF], [0.0], [1]), ([INF], [INF], [1]),
                   ([-0.0], [0.0], [1]), ([1], [0.0], [0.0]), ([1], [0.0], [INF]),
                   ([1], [0.0], [-1])),
    "mean_norm": _MANY, "std_norm": _MANY,
    "scaled_dot_product_attention": (([3], [2]), ([NAN, 1], [1, 1]), ([INF, 1], [1, 1]),
                                     ([1, 1], [INF, 1]), ([1, 1], [NAN, 1]), ([1, 1], [2, 2]))}
# The sign of a zero that was chosen among zeros is nobody's promise: it is not shown.
_CHOSEN = ("max", "min", "pool")
_SAME = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sort", "argsort", "softmax",
         "log_softmax", "normalize"]


def _first(v: Any) -> Any:
    return v[0] if isinstance(v, tuple) else v


def _functions(t: Any) -> Any:
    """Where a library keeps what works on windows and vectors."""
    return getattr(t.nn, "functional", t)


def _row(x: Any, rank: int) -> Any:
    """A vector as the last axis of a tensor."""
    return x.reshape(*[1] * (rank - 1), -1)


def _first_place(t: Any, source: Any) -> Any:
    """Index 0 for each element of a source."""
    return t.zeros(source.shape, dtype="i64" if t is tegg else t.long)


# Calls that are not name(x): of any library, or of one; None where it has nothing like it.
_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    **{n: lambda t, x, n=n: _first(getattr(t, n)(x, 0)) for n in _SAME},
    **{n: lambda t, x, n=n: getattr(t, n)(x, 0) for n in ("max", "min", "argmax", "argmin",
                                                          "logsumexp", "any", "all")},
    "max": lambda t, x: t.amax(x, 0), "min": lambda t, x: t.amin(x, 0),
    "norm": lambda t, x: t.linalg.norm(x),
    "argsort": lambda t, x: t.argsort(x, stable=True),
    "topk": lambda t, x: t.topk(x, 2)[0],
    "softmax": lambda t, x: t.nn.functional.softmax(x, 0),
    "normalize": lambda t, x: t.nn.functional.normalize(x, dim=0),
    **{name: lambda t, x, name=name, n=n: getattr(_functions(t), name)(
        _row(x, n + 2), (*[1] * (n - 1), 2)) for n, name in _POOLS},
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (4,)),
    "rms_norm": lambda t, x: t.nn.functional.rms_norm(x, (4,), None, 1e-5),
    "group_norm": lambda t, x: t.nn.functional.group_norm(x.reshape(1, 4), 2),
    "clamp": lambda t, x: t.clamp(x, -1, 1),
    "searchsorted": lambda t, x, y: t.searchsorted(x, y),
    "matmul": lambda t, x, y: _row(x, 2) @ _row(y, 2).T,
    "mm": lambda t, x, y: t.mm(_row(x, 2), _row(y, 2).T),
    "bmm": lambda t, x, y: t.bmm(_row(x, 3), _row(y, 3).mT),
    "mv": lambda t, x, y: t.mv(_row(x, 2), y),
    "linear": lambda t, x, y: _functions(t).linear(_row(x, 2), _row(y, 2)),
    "einsum": lambda t, x, y: t.einsum("i,i->", x, y),
    "addmm": lambda t, x, y: t.addmm(t.ones(1), _row(x, 2), _row(y, 2).T),
    "baddbmm": lambda t, x, y: t.baddbmm(t.ones(1, 1, 1), _row(x, 3), _row(y, 3).mT),
    "outer": lambda t, x, y: t.outer(x, y),
    "cosine_similarity": lambda t, x, y: _functions(t).cosine_similarity(x, y, 0),
    "pairwise_distance": lambda t, x, y: _functions(t).pairwise_distance(x, y),
    "cdist": lambda t, x, y: t.cdist(_row(x, 2), _row(y, 2)),
    **{name: lambda t, x, w, name=name, n=n: getattr(_functions(t), name)(
        _row(x, n + 2), _row(w, n + 2)) for n in (1, 2, 3)
       for name in (f"conv{n}d", f"conv_transpose{n}d")},
    **{n: lambda t, x, s, n=n: getattr(t, n)(x, 0, _first_place(t, s), s)
       for n in ("scatter", "scatter_add", "index_add", "index_copy")},
    "scatter_reduce": lambda t, x, s: t.scatter_reduce(x, 0, _first_place(t, s), s, "amax"),
    "index_put": lambda t, x, s: t.index_put(x, (_first_place(t, s),), s),
    "lerp": lambda t, x, y: t.lerp(x, y, 0.5),
    "glu": lambda t, x, y: _functions(t).glu(t.cat([x, y])),
    "threshold": lambda t, x: _functions(t).threshold(x, -1.0, 5.0),
    "prelu": lambda t, x, w: _functions(t).prelu(x, w),
    "trace": lambda t, x: t.trace(t.diag(x)),
    "interpolate": lambda t, x: _functions(t).interpolate(_row(x, 3), size=4, mode="linear"),
    "batch_norm": lambda t, x, m, v: _functions(t).batch_norm(x.reshape(-1, 1), m, v),
    "instance_norm": lambda t, x: _functions(t).instance_norm(_row(x, 3)),
    "scaled_dot_product_attention": lambda t, x, y: _functions(t).scaled_dot_product_attention(
        x.reshape(-1, 1), y.reshape(-1, 1), y.reshape(-1, 1)),
}
_OURS: dict[str, Callable[..., Any]] = {
    "trace": lambda x: x.diag().trace(),
    "scatter_nd": lambda x, s: tegg.scatter_nd(x, _first_place(tegg, s)[:, None], s),
    "mean_norm": lambda x: x.mean_norm(), "std_norm": lambda x: x.std_norm(),
    "norm": lambda x: x.norm(), "max": lambda x: x.max(0), "min": lambda x: x.min(0),
    "softmax": lambda x: x.softmax(0), "normalize": lambda x: x.normalize(0),
    "layer_norm": lambda x: tegg.layer_norm(x, 4),
    "rms_norm": lambda x: tegg.rms_norm(x, 4, eps=1e-5),
    "group_norm": lambda x: tegg.group_norm(x.reshape(1, 4), 2),
}
_NUMPY: dict[str, Callable[..., Any]] = {
    "var": lambda x: np.var(x, ddof=1), "std": lambda x: np.std(x, ddof=1),
    "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate,
    "logcumsumexp": np.logaddexp.accumulate, "clamp": lambda x: np.clip(x, -1, 1),
    "norm": np.linalg.norm, "argsort": lambda x: np.argsort(x, kind="stable"),
    "max": np.max, "min": np.min, "sum": np.sum, "any": np.any, "all": np.all,
    "logsumexp": lambda x: np.logaddexp.reduce(x),
    "einsum": lambda x, y: np.einsum("i,i->", x, y),
    **{f"conv{n}d": lambda x, w: np.correlate(x, w) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": np.convolve for n in (1, 2, 3)},
    **{n: lambda x, s: _written(x, s, None) for n in ("scatter", "index_copy", "index_put",
                                                      "scatter_nd")},
    **{n: lambda x, s: _written(x, s, np.add) for n in ("scatter_add", "index_add")},
    "scatter_reduce": lambda x, s: _written(x, s, np.maximum),
    "mean_norm": lambda x: x - np.mean(x), "trace": lambda x: np.trace(np.diag(x)),
    "rope": lambda x, c, s: x * c + np.stack([-x[1], x[0]]) * s,
    "std_norm": lambda x: x / np.sqrt(np.mean(x * x) + np.float32(1e-5)),
}


def _written(x: np.ndarray, source: np.ndarray, how: np.ufunc | None) -> np.ndarray:
    """Every element of a source to the first place of x."""
    at = np.zeros(source.shape, int)
    if how is None:
        x[at] = source
    else:
        how.at(x, at, source)
    return x


def cases(op: PublicOp) -> Cases:
    """The operands that an op is shown with, none where nothing is special."""
    if op.name in _SHOWN:
        return _SHOWN[op.name]
    if op.name in _LONG or op.name in _SAME or op.name == "topk":
        return _MANY
    if op.name.endswith("norm") and op.name in _CALLS:
        return _FOUR
    if op.family in ("create", "movement", "parts", "repeats", "cumulative", "norm"):
        return ()
    g = tegg.Graph()
    for operands in (_ONE, _TWO):
        form = f"tegg.{op.name}({', '.join('xy'[:len(operands[0])])})"
        given = [g.tensor((1,)) for _ in operands[0]]
        try:
            fits = example(op.name) == form and op.function(*given).shape == (1,)
        except (tegg.TeggError, AttributeError):
            continue
        if fits:
            return operands
    return ()


def ours(op: PublicOp, given: tuple[list[float], ...]) -> Any:
    """The value by the meanings of the primops."""
    graph = tegg.Graph()
    arrays = [np.array(v, np.float32) for v in given]
    tensors = [graph.tensor(a.shape, "f32") for a in arrays]
    call = _OURS.get(op.name) or (lambda *a: _CALLS[op.name](tegg, *a) if op.name in _CALLS
                                  else op.function(*a))
    with graph.recording():
        made = _first(call(*tensors))
    return evaluate([made.node], dict(enumerate(arrays)))[0]


def numpys(op: PublicOp, given: tuple[list[float], ...]) -> Any:
    """NumPy's value, or None where it has no such function."""
    call = _NUMPY.get(op.name) or next(
        (getattr(np, n) for n in names_of(op) if callable(getattr(np, n, None))), None)
    return None if call is None else call(*(np.array(v, np.float32) for v in given))


def torchs(op: PublicOp, torch: Any, given: tuple[list[float], ...]) -> Any:
    """PyTorch's value, or None where it has no such function."""
    tensors = [torch.tensor(v, dtype=torch.float32) for v in given]
    if op.name in _CALLS:
        return _CALLS[op.name](torch, *tensors).numpy()
    found = next((getattr(lib, n) for lib in (torch, torch.nn.functional) for n in names_of(op)
                  if callable(getattr(lib, n, None))), None)
    return None if found is None else found(*tensors).numpy()


def said(call: Callable[..., Any], op: PublicOp, *args: Any) -> str | None:
    """A value as it is written, ``error`` for an exception."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = call(op, *args)
        except Exception:  # noqa: BLE001 - of any library
            return "error"
    if value is None:
        return None
    return written(np.asarray(value) + (0.0 if any(w in op.name for w in _CHOSEN) else -0.0)
                   if np.asarray(value).dtype.kind == "f" else value)


def written(v: Any) -> str:
    """Numbers with four digits, those of several between spaces."""
    flat = np.asarray(v).ravel()
    texts = [str(bool(n)) if flat.dtype.kind == "b" else f"{float(n):.4g}" for n in flat]
    return " ".join(texts) or "empty"


def rows(op: PublicOp) -> dict[str, list[str]]:
    """Library -> what it gives for each of the cases; libraries that lack the op are left out."""
    given = cases(op)
    found = {"NumPy": [said(numpys, op, c) for c in given],
             "PyTorch": json.loads(DATA.read_text(encoding="utf-8"))["values"].get(op.name, [None]),
             "tegg": [said(ours, op, c) for c in given]}
    return {k: [t for t in v if t is not None] for k, v in found.items() if None not in v}


def heads(op: PublicOp) -> list[str]:
    """The operands of each case as they are written."""
    return [", ".join(map(_operand, c)) for c in cases(op)]


def table(op: PublicOp) -> list[str]:
    """The lines of one op: cases beside each other, libraries one under the other."""
    columns = heads(op)
    if not columns:
        return []
    lines = [f"| special values | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return ["", *lines, *(f"| {k} | {' | '.join(v)} |" for k, v in rows(op).items())]


def _operand(values: list[float]) -> str:
    texts = [f"{v:.4g}" for v in values]
    return texts[0] if len(texts) == 1 else f"[{' '.join(texts)}]"


def measured() -> dict[str, Any]:
    """PyTorch's column, with the version."""
    import torch

    values: dict[str, list[str]] = {}
    for op in PUBLIC.values():
        found = [said(torchs, op, torch, c) for c in cases(op)]
        if found and None not in found:
            values[op.name] = [v for v in found if v is not None]
    return {"version": torch.__version__.split("+")[0], "values": values}


if __name__ == "__main__":
    DATA.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
