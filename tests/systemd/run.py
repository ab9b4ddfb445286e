#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs stakeoutd as the service that its unit makes of it: boots Debian 12 with systemd under qemu's software
emulation, with what `make dist` packs installed and the unit enabled, and has guest_checks.py look there at what becomes
of it.

The system is made by debootstrap once and kept in BUILD/systemd; the kernel is tests/kernels' one. Exit status: 0 all
checks passed, 1 one failed, 77 nothing could be run (the last line on standard error says why).
"""
import argparse
import hashlib
import importlib.util
import io
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS_DIR = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(TESTS_DIR, "integration"), os.path.join(TESTS_DIR, "kernels")]
import harness  # noqa: E402  pylint: disable=C0413
from debian import KEYRING, Unavailable, mirror  # noqa: E402  pylint: disable=C0413


def _kernels():
    """tests/kernels/run.py: kernels, initramfs, emulated machines."""
    spec = importlib.util.spec_from_file_location("kernels", os.path.join(TESTS_DIR, "kernels", "run.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


kernels = _kernels()

SUITE = "bookworm"
KERNEL = "6.1"
PACKAGES = ["systemd-sysv", "dbus", "python3", "bpftool"]
LEFT_OUT = ["./dev/*", "./proc/*", "./sys/*", "./run/*", "./tmp/*", "./var/cache/apt/*", "./var/lib/apt/lists/*"]
LEFT_OUT += [f"./usr/share/{name}/*" for name in ("doc", "i18n", "info", "locale", "man")]
CUDA = ("cuda_calls", "plain/libcuda.so.1", "plain/libcudart.so.12")
WORKLOADS = ["split-static", "threads-static", *(f"cuda/{name}" for name in CUDA)]
SCRIPTS = ["py_threads.py"]
GUEST_FILES = ["guest_checks.py", "guest_service.py"]
# Of Debian's own, which take time and have nothing to do with it.
MASKED = [f"{name}.timer" for name in ("apt-daily", "apt-daily-upgrade", "dpkg-db-backup", "e2scrub_all", "fstrim")]
MASKED += ["e2scrub_reap.service", "getty@tty1.service", "serial-getty@ttyS0.service"]
TOKEN = "systemd-test-0123456789abcdef"
USERS = {"member": 2001, "stranger": 2002}
GROUP_ID = 2000

CONFIG = f"""\
# The service's, in the machine of tests/systemd.
match = ^/build/workloads/split-static
listen = 127.0.0.1:9464
token-file = /etc/stakeout/token
window = 2
retain-size = 64M
"""

# WatchdogSec= as in the unit would take minutes to see.
DROP_IN = """\
[Service]
WatchdogSec=10
"""

CHECKS_UNIT = """\
[Unit]
Description=checks of stakeoutd.service
After=stakeoutd.service

[Service]
Type=simple
Environment=STAKEOUT_BUILD=/build PYTHONDONTWRITEBYTECODE=1 TEST_TOKEN={token}
ExecStart=/usr/bin/python3 /tests/systemd/guest_checks.py
ExecStopPost=/usr/bin/systemctl poweroff --force --force
StandardOutput=file:/dev/ttyS1
StandardError=file:/dev/ttyS1
"""


# The system.


def check_output(argv, why):
    result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode:
        raise Unavailable(f"{why}: {(result.stderr.strip() or result.stdout.strip() or '?').splitlines()[-1]}")


def base_archive(directory):
    """Path of the system's archive; made where it is not kept."""
    what = hashlib.sha256(repr((SUITE, PACKAGES, LEFT_OUT)).encode()).hexdigest()[:12]
    path = os.path.join(directory, f"{SUITE}-{what}.tar")
    if os.path.exists(path):
        return path
    if os.geteuid() != 0:
        raise Unavailable("only root can make the system (debootstrap)")
    debootstrap = kernels.need("debootstrap")
    unshare = kernels.need("unshare")
    where = tempfile.mkdtemp(prefix="tree-", dir=directory)
    try:
        tree = os.path.join(where, "root")
        # What it mounts goes with the namespace, however it ends.
        argv = [unshare, "--mount", "--pid", "--fork", "--kill-child", debootstrap, "--variant=minbase"]
        argv += [f"--keyring={KEYRING}", f"--include={','.join(PACKAGES)}", SUITE, tree, mirror()]
        check_output(argv, "debootstrap")
        made = os.path.join(where, "tar")
        tar = ["tar", "-c", "-f", made, "-C", tree, "--numeric-owner", *(f"--exclude={name}" for name in LEFT_OUT), "."]
        check_output(tar, "tar")
        os.rename(made, path)
    finally:
        shutil.rmtree(where)
    return path


class Overlay:
    """An archive of what is laid over the system."""

    def __init__(self):
        self.data = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.data, mode="w", format=tarfile.GNU_FORMAT)  # pylint: disable=R1732

    def file(self, path, content, mode=0o644, group=0):
        info = tarfile.TarInfo(path.lstrip("/"))
        info.size, info.mode, info.gid = len(content), mode, group
        self.tar.addfile(info, io.BytesIO(content))

    def text(self, path, content, **options):
        self.file(path, content.encode(), **options)

    def copy(self, source, path):
        with open(source, "rb") as f:
            self.file(path, f.read(), stat.S_IMODE(os.stat(source).st_mode) & ~0o022)

    def link(self, path, target):
        info = tarfile.TarInfo(path.lstrip("/"))
        info.type, info.linkname = tarfile.SYMTYPE, target
        self.tar.addfile(info)

    def finish(self):
        self.tar.close()
        return self.data.getvalue()


def install(overlay, archive):
    """As the README has it: cp -r bin lib share /usr/local."""
    with tarfile.open(archive) as packed:
        for member in packed:
            path = member.name.split("/", 1)[-1]
            if member.isfile() and path.split("/")[0] in ("bin", "lib", "share"):
                overlay.file("/usr/local/" + path, packed.extractfile(member).read(), member.mode)


def add_users(overlay, base):
    with tarfile.open(base) as tar:
        passwd, group = (tar.extractfile("./etc/" + name).read().decode() for name in ("passwd", "group"))
    for name, number in USERS.items():
        passwd += f"{name}:x:{number}:{number}::/:/bin/sh\n"
        group += f"{name}:x:{number}:\n"
    overlay.text("/etc/passwd", passwd)
    overlay.text("/etc/group", group + f"stakeout:x:{GROUP_ID}:member\n")


def add_tests(overlay):
    for name in GUEST_FILES:
        overlay.copy(os.path.join(HERE, name), "/tests/systemd/" + name)
    overlay.copy(os.path.join(TESTS_DIR, "integration", "harness.py"), "/tests/integration/harness.py")
    overlay.copy(os.path.join(TESTS_DIR, "integration", "metrics_text.py"), "/tests/integration/metrics_text.py")
    for name in SCRIPTS:
        overlay.copy(os.path.join(TESTS_DIR, "workloads", name), "/tests/workloads/" + name)
    # Where harness.py looks for what was built.
    for name in ("stakeout", "stakeoutd"):
        overlay.link("/build/" + name, "/usr/local/bin/" + name)
    for name in WORKLOADS:
        source = os.path.join(harness.WORKLOAD_DIR, name)
        if not os.path.exists(source):
            raise Unavailable(f"{source} is not built")
        overlay.copy(source, "/build/workloads/" + name)
    overlay.text("/etc/systemd/system/checks.service", CHECKS_UNIT.format(token=TOKEN))


def overlay_archive(archive, base):
    overlay = Overlay()
    install(overlay, archive)
    add_users(overlay, base)
    add_tests(overlay)
    overlay.text("/etc/stakeout/stakeoutd.conf", CONFIG)
    overlay.text("/etc/stakeout/token", TOKEN + "\n", mode=0o600)
    overlay.text("/etc/systemd/system/stakeoutd.service.d/watchdog.conf", DROP_IN)
    overlay.text("/etc/machine-id", hashlib.md5(b"stakeout").hexdigest() + "\n")
    overlay.text("/etc/hostname", "guest\n")
    overlay.text("/etc/fstab", "")
    for name, unit in (("stakeoutd", "/usr/local/lib/systemd/system"), ("checks", "/etc/systemd/system")):
        overlay.link(f"/etc/systemd/system/multi-user.target.wants/{name}.service", f"{unit}/{name}.service")
    overlay.link("/etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target")
    for name in MASKED:
        overlay.link("/etc/systemd/system/" + name, "/dev/null")
    return overlay.finish()


def initramfs(archive, directory):
    base = base_archive(directory)
    root = kernels.Archive()
    root.copy(os.path.join(HERE, "guest_init"), "/init")
    busybox = kernels.need("busybox")
    if kernels.shared_objects(busybox):
        raise Unavailable("busybox is not the static one (Debian's package busybox-static)")
    root.copy(busybox, "/bin/busybox")
    root.copy(base, "/base.tar")
    root.file("/overlay.tar", overlay_archive(archive, base))
    root.device("/dev/console", 5, 1)
    return root.finish()


# The machine.


class Guest(kernels.Guest):
    def command(self):
        settings = "console=ttyS0 panic=-1 audit=1 systemd.show_status=0 systemd.log_target=journal quiet"
        argv = super().command()
        argv[argv.index("-m") + 1] = "2048"
        argv[argv.index("-append") + 1] = settings
        return argv


def report(guest, ended, verbose):
    """Prints a line for each check; how many failed."""
    text = guest.text("results")
    journal = re.search(r"^@@ journal\n(.*?)^@@ end$", text, re.MULTILINE | re.DOTALL)
    lines = text[: journal.start()] if journal else text
    failed = len(re.findall(r"^FAIL ", lines, re.MULTILINE))
    print(lines.rstrip())
    if not ended or not re.search(r"^ok ", lines, re.MULTILINE):
        failed += 1
        print("FAIL  machine: it did not come to its end in time, or crashed; the kernel's last lines:")
        print("      " + "\n      ".join(guest.text("console").splitlines()[-15:]))
    if journal and (verbose or failed):
        print("--- the journal\n" + journal[1].rstrip())
    return failed


def parse_options():
    parser = argparse.ArgumentParser(description="Runs stakeoutd under systemd, under qemu's software emulation.")
    parser.add_argument("archive", help="what `make dist` has packed")
    parser.add_argument("--timeout", type=float, default=1500, help="seconds that the machine may take (1500)")
    parser.add_argument("--boot-timeout", type=float, default=600, help="seconds until it must speak (600)")
    parser.add_argument("--keep", action="store_true", help="keep the initramfs and what was sent")
    parser.add_argument("--verbose", action="store_true", help="print the journal, too")
    options = parser.parse_args()
    options.seconds = options.rate = 0  # kernels.Guest's, for its own guest
    return options


def run(options):
    """How many checks failed."""
    directory = os.path.join(harness.BUILD_DIR, "systemd")
    kernel_directory = os.path.join(harness.BUILD_DIR, "kernels")
    os.makedirs(directory, exist_ok=True)
    os.makedirs(kernel_directory, exist_ok=True)
    kernels.need("qemu-system-x86_64")
    if not os.path.exists(options.archive):
        raise Unavailable(f"{options.archive} is not built")
    image = kernels.kernel_image(KERNEL, kernel_directory)
    guest = Guest(image, initramfs(options.archive, directory), options)
    try:
        began = time.monotonic()
        ended = guest.run()
        failed = report(guest, ended, options.verbose)
        print(f"systemd: {failed} failed, {time.monotonic() - began:.0f} s", flush=True)
        return failed
    finally:
        if options.keep:
            print(f"kept: {guest.where}")
        else:
            guest.remove()


def main():
    options = parse_options()
    try:
        return 1 if run(options) else 0
    except Unavailable as unavailable:
        print(unavailable, file=sys.stderr)
        return 77


if __name__ == "__main__":
    sys.exit(main())
