#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs stakeout on other kernels: boots each under qemu's software emulation with this build in its initramfs,
records two workloads there, once with the mechanisms that stakeout chooses and once with chained programs, times the calls
of the CUDA stand-ins, and checks what comes out. KERNEL-system boots that kernel for what the machine that runs the tests
must be spared: control groups, kernel modules, and a wall clock that is set.

Kernels are Debian packages: they are downloaded and unpacked, never installed, and kept in BUILD/kernels. Exit status:
0 all checks passed, 1 one failed, 77 nothing could be run (the last line on standard error says why).
"""
import argparse
import contextlib
import glob
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time

TESTS_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS_DIR, "integration"))
import cuda_checks  # noqa: E402  pylint: disable=C0413
import harness  # noqa: E402  pylint: disable=C0413
import system_checks  # noqa: E402  pylint: disable=C0413
from debian import Unavailable, apt, apt_options  # noqa: E402  pylint: disable=C0413

# Kernels by their short names, with the Debian suite whose stock kernel it is.
KERNELS = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie"}
SYSTEM = "-system"
ALL = [*KERNELS, "6.1" + SYSTEM]
META_PACKAGE = "linux-image-amd64"
WORKLOADS = ["split", "threads"]
MODES = ["default", "tail-calls"]
NAMES = {"split": ("main", "split_bag", "split_kernel"), "threads": ("thread_main", "thread_burn")}
LEAST_SAMPLES = 100
LEAST_COMPLETE = 0.999


def need(tool):
    path = shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/bin")
    if not path:
        raise Unavailable(f"{tool} is not installed")
    return path


# The kernel.


def unpack(deb, directory):
    """The kernel image of a package; the modules that system_checks.py wants are put beside it. The package is not installed,
    and none of its scripts run."""
    with tempfile.TemporaryDirectory(prefix="stakeout-kernel-") as where:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as archive:
            wanted = ["./boot/vmlinuz-*", *(f"./lib/modules/*/{name}.ko*" for name in system_checks.MODULES)]
            # It fails where there is no such module, as in a package that has them compressed by another name.
            tar = ["tar", "-x", "-C", where, "--wildcards", *wanted]
            subprocess.run(tar, stdin=archive.stdout, capture_output=True, check=False)
        images = glob.glob(os.path.join(where, "boot", "vmlinuz-*"))
        if not images:
            raise Unavailable(f"{deb} holds no kernel image")
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, os.path.basename(images[0]))
        os.makedirs(path + ".modules", exist_ok=True)
        for module in glob.glob(os.path.join(where, "lib", "modules", "**", "*.ko*"), recursive=True):
            shutil.copy(module, path + ".modules")
        shutil.copy(images[0], path)
    return path


def download(name, suite, directory):
    """The stock kernel of a suite, None for the system's own suites; None if it is not of the named version."""
    options = apt_options(suite, directory)
    shown = apt(options, "apt-cache", "show", "--no-all-versions", META_PACKAGE)
    package = re.search(r"^Depends:.*?\b(linux-image-([0-9][\w.+-]*))", shown, re.MULTILINE)
    if not package or not package[2].startswith(name + "."):
        return None
    kept = os.path.join(directory, "vmlinuz-" + package[2])
    if os.path.exists(kept) and os.path.isdir(kept + ".modules"):
        return kept
    with tempfile.TemporaryDirectory(prefix="stakeout-kernel-") as where:
        apt(options, "apt-get", "download", "-q", package[1], cwd=where)
        return unpack(glob.glob(os.path.join(where, "*.deb"))[0], directory)


def stock_kernel(name, directory):
    """From the suites that the system uses anyway, or from the one that has it, with lists of its own."""
    why = f"no suite of Debian has a stock kernel {name}"
    for suite in (None, KERNELS[name]):
        try:
            image = download(name, suite, directory)
            if image:
                return image
        except Unavailable as unavailable:
            why = unavailable
    # Without a network, an image of an earlier run serves as well.
    kept = [path for path in glob.glob(os.path.join(directory, f"vmlinuz-{name}.*")) if not os.path.isdir(path)]
    if not kept:
        raise Unavailable(why)
    return max(kept, key=os.path.getmtime)


def kernel_image(name, directory):
    """A kernel by its short name, or a path: of a kernel image, or of a Debian package that holds one."""
    if name in KERNELS:
        need("apt-get")
        need("dpkg-deb")
        return stock_kernel(name, directory)
    if not os.path.exists(name):
        raise Unavailable(f"no kernel {name}: known are {', '.join(KERNELS)}, and paths")
    return unpack(name, directory) if name.endswith(".deb") else name


# The initramfs.


class Archive:
    """A cpio archive in the format "newc", which the kernel unpacks as its first root
    (Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self):
        self.data, self.names = bytearray(), set()

    def _add(self, name, mode, content=b"", device=(0, 0)):
        encoded = name.encode() + b"\0"
        fields = (len(self.names) + 1, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
        self.data += b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        self.data += bytes(-len(self.data) % 4) + content
        self.data += bytes(-len(self.data) % 4)
        self.names.add(name)

    def directory(self, path):
        parts = path.strip("/").split("/")
        for i in range(len(parts)):
            name = "/".join(parts[: i + 1])
            if name and name not in self.names:
                self._add(name, stat.S_IFDIR | 0o755)

    def file(self, path, content, mode=0o755):
        name = path.strip("/")
        if name not in self.names:
            self.directory(os.path.dirname(name))
            self._add(name, stat.S_IFREG | mode, content)

    def copy(self, source, path):
        with open(source, "rb") as f:
            self.file(path, f.read())

    def device(self, path, major, minor):
        self.directory(os.path.dirname(path))
        self._add(path.strip("/"), stat.S_IFCHR | 0o600, device=(major, minor))

    def finish(self):
        self._add("TRAILER!!!", 0)
        return bytes(self.data)


def shared_objects(binary):
    """Paths of the libraries and the loader that a program needs, as the loader itself finds them."""
    result = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False)
    return sorted(set(re.findall(r"(/\S+) \(0x", result.stdout)))


def initramfs(image, system):
    archive = Archive()
    binaries = {"/bin/busybox": need("busybox"), "/bin/stakeout": harness.STAKEOUT, "/bin/stakeoutd": harness.STAKEOUTD}
    for name in WORKLOADS:
        binaries["/workloads/" + name] = os.path.join(harness.WORKLOAD_DIR, name)
    binaries["/memory/mem_grow"] = os.path.join(harness.WORKLOAD_DIR, "mem_grow")
    binaries.update(system_checks.files(image) if system else cuda_checks.files())
    for path, source in binaries.items():
        if not os.path.exists(source):
            raise Unavailable(f"{source} is not built")
        archive.copy(source, path)
        for library in shared_objects(source):
            if library not in map(os.path.realpath, binaries.values()):
                archive.copy(library, library)
    if shared_objects(binaries["/bin/busybox"]):
        raise Unavailable("busybox is not the static one (Debian's package busybox-static)")
    here = os.path.dirname(os.path.abspath(__file__))
    archive.copy(os.path.join(here, "guest_init"), "/init")
    for part in ("guest_cuda", "guest_system"):
        archive.copy(os.path.join(here, part), "/" + part)
    for path, text in system_checks.texts().items():
        archive.file(path, text.encode(), 0o644)
    archive.device("/dev/console", 5, 1)
    return archive.finish()


# The machine.


class Guest:
    """One run of the machine: what it sent over its two serial lines."""

    def __init__(self, image, root, options, part="workloads"):
        self.where = tempfile.mkdtemp(prefix="stakeout-kernels-")
        self.image, self.options, self.part = image, options, part
        with open(self.path("initramfs"), "wb") as f:
            f.write(root)

    def path(self, name):
        return os.path.join(self.where, name)

    def text(self, name):
        with contextlib.suppress(OSError), open(self.path(name), encoding="utf-8", errors="replace") as f:
            return f.read().replace("\r", "")
        return ""

    def command(self):
        settings = (
            f"console=ttyS0 panic=-1 stakeout.seconds={self.options.seconds} stakeout.rate={self.options.rate} "
            f"stakeout.part={self.part}"
        )
        # Software emulation only: a hypervisor inside a virtual machine may hang.
        return [
            *(need("qemu-system-x86_64"), "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024"),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-kernel", self.image),
            *("-initrd", self.path("initramfs"), "-append", settings),
            *("-serial", "file:" + self.path("console"), "-serial", "file:" + self.path("results")),
        ]

    def run(self):
        """Whether it came to its end. Two emulated CPUs now and then trip over code that the kernel changes while it boots
        (6.12): a machine that said nothing is booted once more."""
        return self._boot() or (not self.text("results") and self._boot())

    def _boot(self):
        began = time.monotonic()
        with subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                while process.poll() is None:
                    passed = time.monotonic() - began
                    limit = self.options.timeout if self.text("results") else self.options.boot_timeout
                    if passed > limit:
                        return False
                    time.sleep(0.2)
                return "@@ done" in self.text("results")
            finally:
                process.kill()
                error = process.stderr.read().decode(errors="replace").strip()
                if error:
                    print(error, file=sys.stderr)

    def pieces(self):
        """What was sent: {(mode, workload, name): text}."""
        found = re.findall(r"^@@ (\S+) (\S+) (\S+)\n(.*?)\n?^@@ end$", self.text("results"), re.MULTILINE | re.DOTALL)
        return {(mode, workload, name): text for mode, workload, name, text in found}

    def remove(self):
        shutil.rmtree(self.where, ignore_errors=True)


# The checks.


def check_recording(pieces, mode, workload):
    """Checks one recording; says what it was."""

    def piece(name):
        return pieces.get((mode, workload, name), "").strip("\n")

    if not piece("status"):
        raise AssertionError("the machine did not get so far")
    log = piece("client.log") + "\n" + pieces.get((mode, "-", "load.log"), "")
    if piece("status") != "0" or not piece("stats.json") or not piece("out.folded"):
        raise AssertionError(f"stakeout record ended with {piece('status')}:\n{log}")
    result = subprocess.CompletedProcess([], int(piece("status")), "", log)
    recording = harness.Recording(result, piece("out.folded") + "\n", json.loads(piece("stats.json")), 0)
    recording.check_complete(LEAST_COMPLETE, LEAST_SAMPLES)
    through = recording.count(*NAMES[workload])
    if through < recording.samples / 2:
        raise AssertionError(f"{NAMES[workload]}: {through} of {recording.samples}; {recording.examples('')}")
    return (
        f"{recording.samples} samples, {100 * recording.stats['complete'] / recording.samples:.2f} % complete, "
        f"lost {recording.lost}"
    )


def check_wall(pieces):
    """The shell that waits for its child is there with all of its time."""

    def piece(name):
        return pieces.get(("wall", "-", name), "").strip("\n")

    if piece("status") != "0" or not piece("wall.json"):
        raise AssertionError(f"stakeout record --wall ended with {piece('status')}:\n{piece('client.log')}")
    summary = json.loads(piece("wall.json"))
    shell = [thread for thread in summary["wall"]["threads"] if thread["tid"] == 1][0]
    parts = shell["running_s"] + shell["runnable_s"] + shell["waiting_s"]
    assert abs(parts - summary["duration_s"]) <= 0.05 * summary["duration_s"] + 0.1, (shell, summary["duration_s"])
    assert shell["waits_for"]["state"] == "child", shell
    return f"{parts:.2f} s of {summary['duration_s']:.2f} s, {len(summary['wall']['threads'])} threads"


def check_memory(pieces, name):
    """A leak is found, at its rate and in its function; kernels that cannot do it say so."""

    def piece(what):
        return pieces.get(("memory", "-", what), "").strip("\n")

    if name == "5.10":
        assert piece("status") == "1" and "Linux 5.17 is needed" in piece("client.log"), piece("client.log")
        return "refused in words"
    if piece("status") != "0" or not piece("memory.json"):
        raise AssertionError(f"stakeout memory ended with {piece('status')}:\n{piece('client.log')}")
    said = json.loads(piece("memory.json"))
    rate, kept = said["growth_bytes_per_s"], said["lines"][0]["function_kept_bytes_per_s"]
    assert said["verdict"] == "growing" and said["line"].startswith("leak_record "), said
    assert abs(rate - 1e6) < 2e5 and abs(kept - 1e6) < 3e5, (rate, kept)
    return f"growing by {rate / 1e6:.2f} MB a second, {kept / 1e6:.2f} of it by {said['line']}"


def check_gpu_memory(pieces, name):
    """The kernel takes the programs; that there is nothing to be seen is said after that."""
    said = pieces.get(("gpu-memory", "-", "client.log"), "").strip("\n")
    wanted = "Linux 5.17 is needed" if name == "5.10" else "PyTorch is not loaded"
    assert wanted in said and "kernel refused" not in said, said
    return "refused in words" if name == "5.10" else "loaded"


def check_allocations(pieces, name):
    """What the leak allocates, within five standard errors, and that it keeps it; older kernels say that they cannot."""

    def piece(what):
        return pieces.get(("allocations", "-", what), "").strip("\n")

    if name in ("5.10", "6.1"):
        assert piece("status") == "1" and "Linux 6.6 is needed" in piece("client.log"), piece("client.log")
        return "refused in words"
    if piece("status") != "0" or not piece("memory.json"):
        raise AssertionError(f"stakeout memory --allocations ended with {piece('status')}:\n{piece('client.log')}")
    said = json.loads(piece("memory.json"))
    [line] = [line for line in said["lines"] if line["line"].startswith("leak_record ")]
    truth, error = 1e6 * said["duration_s"], said["standard_error_bytes"] + said["sample_bytes"]
    assert abs(line["allocated_bytes"] - truth) < 5 * error and line["freed_bytes"] == 0, said
    return f"{line['allocated_bytes'] / 1e6:.1f} MB of {truth / 1e6:.1f} by {line['line']}, {said['probe_hits']:.0f} hits"


def report_failure(guest, error):
    print(f"      {error or repr(error)}".rstrip().replace("\n", "\n      "))
    if not guest.text("results"):
        print("      the kernel's last lines:\n      " + "\n      ".join(guest.text("console").splitlines()[-15:]))


def workload_checks(pieces, name):
    """[(what, function that checks it)]"""

    def machine():
        log = pieces.get(("machine", "-", "check.log"), "")
        assert pieces.get(("machine", "-", "check.status"), "").strip() == "0", log
        missing = re.findall(r"^missing\s+(.*\S)", log, re.MULTILINE)
        return "all found" if not missing else "works without: " + ", ".join(missing)

    def daemon():
        status = pieces[("tail-calls", "-", "daemon.status")].strip()
        assert status == "0", f"stakeoutd ended with {status}: {pieces[('tail-calls', '-', 'daemon.log')]}"
        return "ended with 0"

    recordings = [
        (f"{mode}, {workload}", lambda m=mode, w=workload: check_recording(pieces, m, w))
        for mode in MODES
        for workload in WORKLOADS
    ]
    wall = ("wall time", lambda: check_wall(pieces))
    memory = ("memory", lambda: check_memory(pieces, name))
    others = [wall, memory, ("memory of GPUs", lambda: check_gpu_memory(pieces, name))]
    others.append(("allocations", lambda: check_allocations(pieces, name)))
    return [("stakeout check", machine), *recordings, *others, ("daemon", daemon), *cuda_checks.check(pieces, name)]


def check_guest(guest, ended, name, verbose):
    """Prints a line for each check; a line for each one that failed."""
    pieces, failed = guest.pieces(), []
    release = pieces.get(("machine", "-", "release"), "").strip() or "did not boot"
    print(f"kernel {name}: {release}")

    def end():
        assert ended, "it did not come to its end in time, or crashed"
        bad = re.findall(r"^.*(?:BUG:|WARNING:|Oops|Call Trace).*$", guest.text("console"), re.MULTILINE)
        assert not bad, f"the kernel complained: {bad[:5]}"
        return "came to its end"

    checks = system_checks.check(pieces) if guest.part == "system" else workload_checks(pieces, name)
    for what, function in [*checks, ("machine", end)]:
        try:
            print(f"ok    kernel {name}: {what}: {function()}")
        except Exception as error:  # pylint: disable=W0718
            failed.append(f"kernel {name}: {what}: {error!r:.200}")
            print(f"FAIL  kernel {name}: {what}")
            report_failure(guest, error)
    if verbose:
        print(pieces.get(("machine", "-", "check.log"), ""))
        for (mode, workload, what), text in pieces.items():
            if what == "out.folded":
                print(f"--- {mode} {workload}\n{text.strip()}")
    sys.stdout.flush()
    return failed


def run_kernel(name, options):
    """A line for each check that failed."""
    if platform.machine() != "x86_64":
        raise Unavailable(f"stakeout is not for {platform.machine()} yet")
    need("qemu-system-x86_64")
    system = name.endswith(SYSTEM)
    image = kernel_image(name[: -len(SYSTEM)] if system else name, options.directory)
    guest = Guest(image, initramfs(image, system), options, "system" if system else "workloads")
    try:
        began = time.monotonic()
        ended = guest.run()
        failed = check_guest(guest, ended, name, options.verbose)
        print(f"kernel {name}: {time.monotonic() - began:.0f} s", flush=True)
        return failed
    finally:
        if options.keep:
            print(f"kept: {guest.where}")
        else:
            guest.remove()


def parse_options():
    parser = argparse.ArgumentParser(description="Runs stakeout on other kernels, under qemu's software emulation.")
    known = ", ".join(ALL)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"{known} (default: all of them), or the path of "
                        f"a kernel image or of a Debian package that holds one; {SYSTEM} may follow either")
    parser.add_argument("--seconds", type=int, default=3, help="length of a recording (3)")
    parser.add_argument("--rate", type=int, default=199, help="samples a second (199)")
    parser.add_argument("--timeout", type=float, default=1500, help="seconds that one machine may take (1500)")
    parser.add_argument("--boot-timeout", type=float, default=600, help="seconds until it must speak (600)")
    parser.add_argument("--keep", action="store_true", help="keep the initramfs and what was sent")
    parser.add_argument("--verbose", action="store_true", help="print `stakeout check` and the folded lines, too")
    options = parser.parse_args()
    options.directory = os.path.join(harness.BUILD_DIR, "kernels")
    return options


def main():
    options = parse_options()
    failed, tested, why = [], 0, ""
    for name in options.kernels or ALL:
        try:
            os.makedirs(options.directory, exist_ok=True)
            failed += run_kernel(name, options)
            tested += 1
        except Unavailable as unavailable:
            why = str(unavailable)
            print(f"kernel {name}: skipped: {why}", file=sys.stderr, flush=True)
    if failed:
        # Again, where whoever cuts a log keeps its end.
        print("\n".join(["failed:", *failed]))
        return 1
    if not tested:
        print(why, file=sys.stderr)
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
