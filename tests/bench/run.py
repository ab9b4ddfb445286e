#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""make bench: stakeout beside the profilers that are installed, on the same targets. Nothing here passes or fails."""
import argparse
import os
import platform
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "integration"))
import harness  # noqa: E402  pylint: disable=C0413
import kernel_figures  # noqa: E402  pylint: disable=C0413
import python_section  # noqa: E402  pylint: disable=C0413
import report as reports  # noqa: E402  pylint: disable=C0413
import sections  # noqa: E402  pylint: disable=C0413
import categories_section  # noqa: E402  pylint: disable=C0413
import growth_section  # noqa: E402  pylint: disable=C0413
import store_section  # noqa: E402  pylint: disable=C0413
import waits_section  # noqa: E402  pylint: disable=C0413
import tools  # noqa: E402  pylint: disable=C0413

SECTIONS = {
    **sections.SECTIONS,
    "python": python_section.python,
    "store": store_section.store,
    "categories": categories_section.categories,
    "waits": waits_section.waits,
    **growth_section.SECTIONS,
}


def machine():
    model = "processor unknown"
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    load = os.getloadavg()[0]
    return {
        "kernel": platform.release(),
        "processor": model,
        "cpus": len(os.sched_getaffinity(0)),
        "load_before": load,
        "tools": tools.versions(),
    }


def parse_options():
    parser = argparse.ArgumentParser(description="Measures stakeout beside the other profilers that are installed.")
    parser.add_argument("--quick", action="store_true", help="shorter and fewer measurements: a look, not a result")
    names = ", ".join(SECTIONS)
    parser.add_argument(
        "--only", metavar="SECTION", action="append", choices=SECTIONS, help=f"{names}; may be repeated"
    )
    parser.add_argument("--json", metavar="FILE", help="write all figures there, too")
    return parser.parse_args()


def measure(options, report):
    for name, section in SECTIONS.items():
        if options.only and name not in options.only:
            continue
        # To measure its programs' run times costs time of its own, which a section of losses does not want.
        run_times = name not in growth_section.SECTIONS
        try:
            with kernel_figures.bpf_run_times(run_times):
                section(report, options.quick)
        except (tools.Absent, harness.Skip, AssertionError) as why:
            report.note(f"this section was not measured: {why}")


def main():
    options = parse_options()
    # What is switched on must be switched off, whoever ends this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    reason = harness.why_no_bpf()
    if reason:
        print(f"bench: nothing can be measured: {reason}", file=sys.stderr)
        return 1
    about, report = machine(), reports.Report()
    print(f"stakeout bench on {about['cpus']} CPUs, {about['processor']}, kernel {about['kernel']}")
    print(f"   load {about['load_before']:.1f}")
    if about["load_before"] > 0.5:
        print("   The machine is not quiet: take the figures for a first look only.")
    for name, version in about["tools"].items():
        print(f"   {name}: {version}")
    try:
        measure(options, report)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
    finally:
        harness.cleanup()
    if options.json:
        report.write_json(options.json, about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
