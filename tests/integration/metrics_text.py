# SPDX-License-Identifier: GPL-2.0-or-later
"""The text format of Prometheus, read strictly."""
import re


def parse_metrics(text):
    """{name: {labels: value}}; fails on what is not the text format."""
    assert text.endswith("\n")
    types, samples = {}, {}
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            assert re.fullmatch(r"# HELP [a-z_]+ \S.*", line), line
        elif line.startswith("# TYPE "):
            match = re.fullmatch(r"# TYPE ([a-z_]+) (counter|gauge|histogram)", line)
            assert match and match.group(1) not in types, line
            types[match.group(1)] = match.group(2)
        else:
            match = re.fullmatch(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? (\S+)', line)
            assert match, f"not a sample: {line!r}"
            name, labels, value = match.groups()
            family = re.sub(r"_(bucket|sum|count)$", "", name)
            kind = types.get(name) or types[family]
            assert (kind == "counter") == name.endswith("_total"), line
            series = samples.setdefault(name, {})
            assert labels not in series, f"twice: {line}"
            series[labels] = float(value)
    return samples
