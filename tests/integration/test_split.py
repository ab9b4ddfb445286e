# SPDX-License-Identifier: GPL-2.0-or-later
"""A known split of CPU time, 50/30/20, against the 95 % intervals of what was sampled."""
import math

from harness import quiet, record, start

SHARES = {"split_fifty": 0.5, "split_thirty": 0.3, "split_twenty": 0.2}
RUNS = 20

# A 95 % interval of independent samples misses the truth in one run of 20, so 20 runs hold it 19 times on average:
# X ~ Bin(20, 0.95), P(X <= 16) = 0.016, P(X <= 14) = 0.0003. The workload's chunks last about 2 ms, two sampling
# periods, in bags that hold exactly 5 + 3 + 2 of them: that makes samples steadier than independent ones (each
# bag of some 20 samples is off by less than one sample, where independent ones would be off by 2.2), so that a
# sampler without bias holds the truth practically always, and 19 of 20 is a bound that only bias can break.
#
# That was so with one clock a rate. With several uneven ones samples are nearly independent: of 20 runs 19 hold the truth on average, and
# fewer than 16 do in 0.3 % of the cases without bias. Bias is for all runs together, below.
LEAST_RUNS = 16
ROUNDS_A_CALL = 600000


def wilson(hits, total, z):
    """Wilson's score interval (Journal of the American Statistical Association 22, 1927)."""
    p, z2 = hits / total, z * z
    middle = (p + z2 / (2 * total)) / (1 + z2 / total)
    half = z / (1 + z2 / total) * math.sqrt(p * (1 - p) / total + z2 / (4 * total * total))
    return middle - half, middle + half


def counts(recording):
    return {name: recording.count(name, "split_kernel") for name in SHARES}


@quiet
def test_known_split():
    target = start("split", 170, ROUNDS_A_CALL)
    held = dict.fromkeys(SHARES, 0)
    pooled = dict.fromkeys(SHARES, 0)
    for _ in range(RUNS):
        found = counts(record(target.pid, duration=1, rate=999).check_totals())
        total = sum(found.values())
        assert total > 300, found
        for name, share in SHARES.items():
            low, high = wilson(found[name], total, 1.96)
            held[name] += low <= share <= high
            pooled[name] += found[name]
    assert min(held.values()) >= LEAST_RUNS, f"runs of {RUNS} that hold the truth: {held}; all together: {pooled}"
    # All runs together, 20,000 samples: a bias of 1.2 percentage points would show.
    for name, share in SHARES.items():
        low, high = wilson(pooled[name], sum(pooled.values()), 3.29)
        assert low <= share <= high, f"{name}: {low:.4f}…{high:.4f} of {pooled}"


def test_known_split_in_small_chunks():
    """Chunks of 60 µs, far below the sampling period: every sample is an independent draw, on a busy machine as well.
    All three are within 99.997 % intervals, so that a run in 10,000 fails by chance."""
    found = counts(record(start("split", 600).pid, duration=8, rate=999).check_totals())
    total = sum(found.values())
    assert total > 300, found
    for name, share in SHARES.items():
        low, high = wilson(found[name], total, 4.15)
        assert low <= share <= high, f"{name}: {low:.4f}…{high:.4f} of {found}"
