"""A short call of each public op, on the tensors that docs/ops.md begins with: x is (2, 3), y (3,),
i three indices, b three bools, image (1, 1, 4, 4) and ones (1, 1, 2, 2)."""

from __future__ import annotations

import re

_TWO = ["add", "mul", "sub", "div", "fmod", "remainder", "floor_divide", "maximum",
        "minimum", "lt", "le", "gt", "ge", "eq", "ne", "logaddexp", "atan2"]
_REST = """\
arange: tegg.arange(2, 8, 2) | linspace: tegg.linspace(0, 1, 5) | full: tegg.full((2,), 7)
zeros: tegg.zeros(2, 2) | ones: tegg.ones(3) | eye: tegg.eye(2) | full_like: tegg.full_like(y, 7)
zeros_like: tegg.zeros_like(x) | ones_like: tegg.ones_like(y)
meshgrid: tegg.meshgrid(y[:2], y[1:], indexing="ij") | pow: x ** 2 | cast: x.cast("i32")
clamp: x.clamp(-1, 1) | gelu: x.gelu("tanh") | where: tegg.where(b, x, 0)
logical_and: tegg.logical_and(b, x > 0) | logical_or: b | (x > 0) | logical_xor: b ^ (x > 0)
logical_not: ~b | nan_to_num: tegg.nan_to_num(y / 0, posinf=9, neginf=-9) | sum: x.sum(0)
mean: x.mean(-1, keepdim=True) | max: x.max(1) | min: x.min(1) | prod: x.prod(1)
any: (x > 2).any(1) | all: (x > -9).all() | var: x.var(1) | std: x.std(1, correction=0)
logsumexp: x.logsumexp(1) | cumsum: x.cumsum(1) | cumprod: x.cumprod(1) | cummax: x.cummax(1)
cummin: x.cummin(1) | logcumsumexp: y.logcumsumexp(0) | argmax: x.argmax(1) | argmin: x.argmin()
argsort: y.argsort() | sort: x.sort(1) | topk: x.topk(2)
searchsorted: tegg.searchsorted(y.sort().values, x) | reshape: x.reshape(3, -1)
permute: x.permute(1, 0) | transpose: x.transpose(0, 1) | swapaxes: x.swapaxes(0, 1)
t: x.t() | movedim: x.movedim(0, 1) | flatten: x.flatten() | unflatten: x.unflatten(1, (3, 1))
squeeze: x[:1].squeeze() | unsqueeze: y.unsqueeze(0) | expand: y.expand(2, 3) | flip: x.flip(1)
narrow: x.narrow(1, 1, 2) | slice_along: x.slice_along(1, -2, None)
excise: x.excise(1, 1) | cat: tegg.cat([x, x[:1]]) | stack: tegg.stack([y, y], 1)
unfold: y.unfold(0, 2) | split: x.split(2, 1) | chunk: x.chunk(2)
tensor_split: x.tensor_split(2, 1) | unbind: x.unbind() | repeat: y.repeat(2, 1) | tile: y.tile(2)
roll: x.roll(1, 1) | repeat_interleave: y.repeat_interleave(2) | rot90: x.rot90()
pad: y.pad((1, 2), value=9) | tril: x.tril() | triu: x.triu(1) | diagonal: x.diagonal()
trace: x[:, :2].trace() | diag: y.diag() | take: y.take(i) | gather: x.gather(1, i[None])
index_select: x.index_select(1, i) | take_along_dim: y.take_along_dim(i, 0)
embedding: tegg.embedding(i, x.T) | scatter: y.scatter(0, i[:2], 9.0)
gather_nd: x.gather_nd(tegg.stack([i[1:], i[:2]], 1))
scatter_nd: y.scatter_nd(i[:2, None], y[:2], "add")
scatter_add: y.scatter_add(0, i[:2], y[:2])
scatter_reduce: y.scatter_reduce(0, i[:2], y[:2], "amax")
index_add: y.index_add(0, i[:2], y[:2]) | index_copy: y.index_copy(0, i[:2], y[:2])
index_put: y.index_put((i[:1],), 9.0) | one_hot: tegg.one_hot(i, 3)
bincount: i.bincount(minlength=4) | matmul: x @ x.T | mm: x.mm(x.T) | bmm: x[None].bmm(x.T[None])
mv: x.mv(y) | dot: y.dot(y) | outer: y.outer(y) | addmm: tegg.addmm(x[:, :2], x, x.T)
baddbmm: tegg.baddbmm(x[None, :, :2], x[None], x.T[None]) | linear: tegg.linear(x, x)
einsum: tegg.einsum("ij,kj->ik", x, x) | norm: x.norm(dim=1) | normalize: x.normalize(1)
cosine_similarity: tegg.cosine_similarity(x, x.flip(0))
pairwise_distance: tegg.pairwise_distance(x, x.flip(0)) | cdist: tegg.cdist(x, x)
softmax: x.softmax(-1) | log_softmax: x.log_softmax(-1)
scaled_dot_product_attention: tegg.scaled_dot_product_attention(x, x, x, is_causal=True)
layer_norm: tegg.layer_norm(x, 3) | rms_norm: tegg.rms_norm(x, 3) | mean_norm: x.mean_norm()
std_norm: x.std_norm(0)
glu: tegg.glu(x[:, :2])
rope: tegg.rope(x[:, :2], y[:2].cos(), y[:2].sin()) | lerp: tegg.lerp(y, x, 0.25)
prelu: tegg.prelu(x, y[2:]) | threshold: tegg.threshold(x, 1.0, 0.0)
batch_norm: tegg.batch_norm(x, y, y * y) | group_norm: tegg.group_norm(image, 1)
instance_norm: tegg.instance_norm(image) | conv1d: tegg.conv1d(x[:1], ones[0, :, :1])
conv2d: tegg.conv2d(image, ones, stride=2) | conv3d: tegg.conv3d(image[None], ones[None])
conv_transpose1d: tegg.conv_transpose1d(x[:1], ones[0, :, :1])
conv_transpose2d: tegg.conv_transpose2d(image, ones)
conv_transpose3d: tegg.conv_transpose3d(ones[None], ones[None])
max_pool1d: tegg.max_pool1d(image[0], 2) | max_pool2d: tegg.max_pool2d(image, 2)
max_pool3d: tegg.max_pool3d(image[None], (1, 2, 2)) | avg_pool1d: tegg.avg_pool1d(image[0], 2)
avg_pool2d: tegg.avg_pool2d(image, 2) | avg_pool3d: tegg.avg_pool3d(image[None], (1, 2, 2))
adaptive_avg_pool1d: tegg.adaptive_avg_pool1d(image[0], 2)
adaptive_avg_pool2d: tegg.adaptive_avg_pool2d(image, 2)
adaptive_avg_pool3d: tegg.adaptive_avg_pool3d(image[None], 1)
adaptive_max_pool1d: tegg.adaptive_max_pool1d(image[0], 2)
adaptive_max_pool2d: tegg.adaptive_max_pool2d(image, 2)
adaptive_max_pool3d: tegg.adaptive_max_pool3d(image[None], 1)
interpolate: tegg.interpolate(image[:, :, :2, :2], scale_factor=2, mode="bilinear")"""
_NAMED = re.compile(r"([a-z]\w*): (.*)")

IMPOSSIBLE = {"nonzero"}  # it exists to say why


def _given() -> dict[str, str]:
    out: dict[str, str] = {}
    for part in (part for line in _REST.splitlines() for part in line.split(" | ")):
        found = _NAMED.fullmatch(part)
        if found is not None:
            out[found[1]] = found[2]
        else:  # an | of the call itself
            out[next(reversed(out))] += f" | {part}"
    return out


_GIVEN = _given()


def example(name: str) -> str:
    """A call of the op."""
    return _GIVEN.get(name) or (f"tegg.{name}(x, y)" if name in _TWO else f"tegg.{name}(x)")
