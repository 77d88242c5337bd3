"""Windows over spatial axes in plain NumPy: convolutions and pools, one tap or window at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np


def positions(n, k, s, before, after, d):
    return (n + before + after - (k - 1) * d - 1) // s + 1


def convolved(x, w, stride, low, high, dilation, groups):
    """Tap by tap: the places of x that meet a tap, times the weights of that tap."""
    x = np.pad(x, [(0, 0), (0, 0), *zip(low, high)])
    n, kernel = x.shape[0], w.shape[2:]
    out = [positions(m, k, s, 0, 0, d) for m, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
    y = np.zeros((n, w.shape[0], *out), x.dtype)
    cin, cout = w.shape[1], w.shape[0] // groups
    for tap in itertools.product(*map(range, kernel)):
        here = x[(slice(None), slice(None), *(
            slice(t * d, t * d + (m - 1) * s + 1, s)
            for t, d, m, s in zip(tap, dilation, out, stride)))]
        for g in range(groups):
            weights = w[(slice(g * cout, (g + 1) * cout), slice(None), *tap)]
            part = np.einsum("nc...,oc->no...", here[:, g * cin:(g + 1) * cin], weights)
            y[:, g * cout:(g + 1) * cout] += part.astype(y.dtype)
    return y


def conv_transposed(x, w, stride, padding, more, dilation, groups):
    """Each element spread over its window, then cut."""
    kernel, cin, cout = w.shape[2:], w.shape[0] // groups, w.shape[1]
    full = [(n - 1) * s + d * (k - 1) + 1 + m
            for n, s, d, k, m in zip(x.shape[2:], stride, dilation, kernel, more)]
    y = np.zeros((x.shape[0], cout * groups, *full), x.dtype)
    for tap in itertools.product(*map(range, kernel)):
        there = tuple(slice(t * d, t * d + (n - 1) * s + 1, s)
                      for t, d, n, s in zip(tap, dilation, x.shape[2:], stride))
        for g in range(groups):
            weights = w[(slice(g * cin, (g + 1) * cin), slice(None), *tap)]
            part = np.einsum("nc...,co->no...", x[:, g * cin:(g + 1) * cin], weights)
            y[(slice(None), slice(g * cout, (g + 1) * cout), *there)] += part.astype(y.dtype)
    return y[(..., *(slice(p, n - p) for p, n in zip(padding, full)))]


def pooled(x, places, reduce):
    """``reduce`` of the elements at each combination of the places of each axis. places: per axis a
    list of index lists, one for each window."""
    out = np.empty((*x.shape[:2], *map(len, places)), x.dtype)
    for at in itertools.product(*(range(len(p)) for p in places)):
        windows = [p[i] for p, i in zip(places, at)]
        values = x[(slice(None), slice(None), *np.ix_(*windows))]
        out[(slice(None), slice(None), *at)] = reduce(values.reshape(*x.shape[:2], -1), at)
    return out


def pool_places(n, k, s, p, d, ceil_mode):
    """The elements of each window that lie inside the axis, window by window."""
    rest = n + 2 * p - d * (k - 1) - 1
    count = (math.ceil(rest / s) if ceil_mode else rest // s) + 1
    if ceil_mode and (count - 1) * s >= n + p:
        count -= 1
    return [[j for j in (i * s - p + t * d for t in range(k)) if 0 <= j < n] for i in range(count)]


def pool_count(n, k, s, p, i):
    """What count_include_pad counts: elements of the axis and of the padding on both sides."""
    return min(i * s - p + k, n + p) - (i * s - p)


def adaptive_places(n, m):
    return [list(range(math.floor(i * n / m), math.ceil((i + 1) * n / m))) for i in range(m)]
