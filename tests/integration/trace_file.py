# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a time line in Chrome's trace format."""
import json


def trace_events(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)["traceEvents"]


def slices_of(path):
    """{(thread name, thread): [(begin, end, name)]} of a trace of one process, in microseconds, which must nest."""
    events = trace_events(path)
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    tracks = {}
    for e in events:
        if e["ph"] == "X":
            tracks.setdefault((names[e["tid"]], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"], e["name"]))
    for track in tracks.values():
        around = []
        for begin, end, name in sorted(track, key=lambda s: (s[0], -s[1])):
            while around and around[-1] <= begin + 0.0011:  # of ns
                around.pop()
            assert not around or end <= around[-1] + 0.002, f"{name} ends after what it is in"
            around.append(end)
    return tracks


def cuda_flows(events):
    """[(launch, wait)]: the slices at the two ends of each arrow, which must be one each."""
    slices, ends = {}, {}
    for e in events:
        if e["ph"] == "X" and 1 << 23 < e["tid"] < 1 << 24:
            slices.setdefault((e["pid"], e["tid"], e["ts"]), []).append(e)
        elif e["ph"] in "sf":
            ends.setdefault(e["id"], {})[e["ph"]] = e["pid"], e["tid"], e["ts"]
    assert all(set(pair) == set("sf") for pair in ends.values()), ends
    both = [(slices[pair["s"]], slices[pair["f"]]) for pair in ends.values()]
    assert all(len(a) == len(b) == 1 for a, b in both)
    return [(a[0], b[0]) for a, b in both]
