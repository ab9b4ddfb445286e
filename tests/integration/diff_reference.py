# SPDX-License-Identifier: GPL-2.0-or-later
"""The statistics of .design/comparison.md once more, with numpy, scipy and statsmodels: for test_diff.py.

Standard input: {"sides": [{"x": [[...] by row], "w": [...]}, ...], "p": [...]}. Standard output: of each row value,
low, high (percent) and p, and the false discovery rates of "p"."""
import json
import sys

import numpy as np
from scipy import optimize, stats
from statsmodels.stats.multitest import multipletests


def ratio(x, w):
    """Value, variance and degrees of freedom of sum(x) / sum(w), blocks in the order of time."""
    x, w = np.asarray(x, float), np.asarray(w, float)
    n, value = len(x), x.sum() / w.sum()
    residuals = x - value * w
    if not residuals.any():
        return value, 0.0, np.inf
    r = (residuals[1:] * residuals[:-1]).sum() / (residuals**2).sum()
    r += (1 + 4 * r) / n
    more = (1 + min(r, 0.7)) / (1 - min(r, 0.7)) if r >= 1 / np.sqrt(n) else 1
    return value, np.var(residuals, ddof=1) * n / w.sum() ** 2 * more, max(n / more - 1, 3)


def compare(base, now):
    (a, va, fa), (b, vb, fb) = base, now
    freedom = (va + vb) ** 2 / (va**2 / fa + vb**2 / fb)
    p = 2 * stats.t.sf(abs(b - a) / np.sqrt(va + vb), freedom)
    t = stats.t.ppf(0.975, freedom)

    def beyond(rho):
        return (b - rho * a) ** 2 - t**2 * (vb + rho**2 * va)

    low = optimize.brentq(beyond, 0, b / a) if beyond(0) > 0 else 0
    high = optimize.brentq(beyond, b / a, 1e6) if a**2 > t**2 * va else None
    return {"change": 100 * (b / a - 1), "low": 100 * (low - 1), "high": high and 100 * (high - 1), "p": p}


def main():
    data = json.load(sys.stdin)
    base, now = data["sides"]
    rows = [compare(ratio(x, base["w"]), ratio(y, now["w"])) for x, y in zip(base["x"], now["x"])]
    json.dump({"rows": rows, "q": list(multipletests(data["p"], method="fdr_bh")[1])}, sys.stdout)


main()
