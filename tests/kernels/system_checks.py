# SPDX-License-Identifier: GPL-2.0-or-later
"""Control groups, kernel modules and the wall clock on a real kernel: what the machine of run.py carries for guest_system,
and the checks of what it sends."""
import json
import os
import re
import shutil

import harness
from debian import Unavailable

# In the order in which they are loaded.
MODULES = ["configfs", "null_blk", "brd"]


def container(digit):
    return digit * 8 + "0123456789abcdef" * 3 + "fedcba98"


def pod(digit):
    return f"{digit * 8}-0123-4567-89ab-0123456789ab"


def slice_of(qos, digit):
    """A pod's group as the kubelet names it with systemd's driver; qos: "" for the guaranteed one."""
    parents = ["kubepods.slice", f"kubepods-{qos}.slice"] if qos else ["kubepods.slice"]
    own = f"kubepods{'-' + qos if qos else ''}-pod{pod(digit).replace('-', '_')}.slice"
    return "/" + "/".join([*parents, own])


# {name: (group, container, pod)}; "" where there is none.
GROUPS = {
    "docker": (f"/system.slice/docker-{container('1')}.scope", container("1"), ""),
    "docker-init": (f"/docker/{container('2')}/init", container("2"), ""),
    "containerd": (f"{slice_of('burstable', 'a')}/cri-containerd-{container('3')}.scope", container("3"), pod("a")),
    "guaranteed": (f"{slice_of('', 'b')}/cri-containerd-{container('4')}.scope", container("4"), pod("b")),
    "cgroupfs": (f"/kubepods/besteffort/pod{pod('c')}/{container('5')}", container("5"), pod("c")),
    # A kubelet with systemd's driver above a containerd without it.
    "mixed": (
        f"/system.slice/containerd.service/{slice_of('burstable', 'd').split('/')[-1]}:cri-containerd:{container('6')}",
        container("6"),
        pod("d"),
    ),
    "crio": (f"{slice_of('besteffort', 'e')}/crio-{container('7')}.scope/container", container("7"), pod("e")),
    "crio-monitor": (f"{slice_of('besteffort', 'e')}/crio-conmon-{container('7')}.scope", "", pod("e")),
    "podman": (f"/machine.slice/libpod-{container('8')}.scope/container", container("8"), ""),
    "rootless": (
        f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{container('9')}.scope/container",
        container("9"),
        "",
    ),
    "podman-monitor": (f"/machine.slice/libpod-conmon-{container('8')}.scope", "", ""),
    "lxc": ("/lxc.payload.web", "", ""),
    "docker-in-lxc": (f"/lxc.payload.web2/system.slice/docker-{container('a')}.scope", container("a"), ""),
    "nspawn": ("/machine.slice/systemd-nspawn@web.service/payload", "", ""),
}

# Where a daemon that is in a container has its own group, and others as they are and as they read from there.
DAEMON_GROUP = f"/kubepods/burstable/pod{pod('a')}/{container('1')}"
INNER = {
    "same-pod": (f"/kubepods/burstable/pod{pod('a')}/{container('2')}", f"/../{container('2')}", container("2"), ""),
    "same-class": (
        f"/kubepods/burstable/pod{pod('b')}/{container('3')}",
        f"/../../pod{pod('b')}/{container('3')}",
        container("3"),
        pod("b"),
    ),
    "other-class": (
        f"/kubepods/besteffort/pod{pod('c')}/{container('4')}",
        f"/../../../besteffort/pod{pod('c')}/{container('4')}",
        container("4"),
        pod("c"),
    ),
    "guaranteed": (
        f"/kubepods/pod{pod('d')}/{container('5')}",
        f"/../../../pod{pod('d')}/{container('5')}",
        container("5"),
        pod("d"),
    ),
    "systemd": (
        f"{slice_of('burstable', 'e')}/cri-containerd-{container('6')}.scope",
        f"/../../../..{slice_of('burstable', 'e')}/cri-containerd-{container('6')}.scope",
        container("6"),
        pod("e"),
    ),
    "docker": (
        f"/system.slice/docker-{container('7')}.scope",
        f"/../../../../system.slice/docker-{container('7')}.scope",
        container("7"),
        "",
    ),
    # Its own child, for which there is no name from there.
    "own": (f"{DAEMON_GROUP}/worker", "/worker", "", ""),
}


def files(image):
    """{path in the machine: path here}"""
    found = {"/usr/bin/unshare": shutil.which("unshare"), "/workloads/threads": os.path.join(harness.WORKLOAD_DIR, "threads")}
    for name in MODULES:
        path = os.path.join(image + ".modules", name + ".ko")
        if not os.path.exists(path):
            raise Unavailable(f"there is no module {name} of the kernel {os.path.basename(image)}")
        found[f"/modules/{name}.ko"] = path
    if not found["/usr/bin/unshare"]:
        raise Unavailable("unshare is not installed")
    return found


def texts():
    """{path in the machine: text}"""

    def lines(pairs):
        return "".join(f"{name} {what}\n" for name, what in pairs)

    return {
        "/groups": lines((name, group) for name, (group, _, _) in GROUPS.items()),
        "/groups.inner": lines((name, group) for name, (group, _, _, _) in INNER.items()),
        "/groups.daemon": DAEMON_GROUP + "\n",
    }


class Answers:
    def __init__(self, pieces):
        self.pieces = pieces

    def piece(self, part, name, what):
        text = self.pieces.get((part, name, what))
        assert text is not None, "the machine did not get so far"
        return text.strip("\n")

    def said(self, part, name):
        """What stakeout said, where it did not fail."""
        said, _, status = self.piece(part, name, "said").rpartition("\n")
        assert status == "0", f"{part} {name}: status {status}: {said}"
        return said

    def json(self, part, name):
        return json.loads(self.said(part, name))

    def daemon(self, part):
        log = self.piece(part, "daemon", "log")
        assert self.piece(part, "daemon", "status") == "0", f"stakeoutd ended with {self.piece(part, 'daemon', 'status')}: {log}"
        return log


def counts(folded):
    """{stack: samples}; without the note of what part of the history it is."""
    rows = (line.rpartition(" ") for line in folded.splitlines() if "from the history: " not in line)
    return {stack: int(n) for stack, _, n in rows}


def total(folded):
    return sum(counts(folded).values())


# Control groups.


class Groups(Answers):
    def found(self, part, name, group, target):
        """What is wrong with one process; "" if nothing is."""
        path, its_container, its_pod = group
        there = self.piece(part, name, "cgroup")
        if there != f"0::{path}":
            return f"is in {there}"
        if not target:
            return "is no target"
        if bool(target["rule"]) != (part != "groups"):
            return f"is of rule {target['rule']}"
        labels = target["labels"]
        found = (labels.get("container") or "", labels.get("pod") or "")
        if found != (its_container, its_pod):
            return f"is {found}, from {path}"
        in_samples = self.piece(part, name, "labels").split()
        if set(in_samples) != {label for label in (its_container, its_pod) if label}:
            return f"has samples of {in_samples}"
        return "" if target["samples"] else "has no samples"

    def labels(self, part, groups):
        """groups: {name: (path, container, pod)}"""
        pids = dict(line.split() for line in self.piece(part, "-", "processes").splitlines())
        targets = {target["pid"]: target for target in self.json(part, "list")}
        wrong = [(name, self.found(part, name, group, targets.get(int(pids[name])))) for name, group in groups.items()]
        wrong = [f"{name} {why}" for name, why in wrong if why]
        assert not wrong, "\n".join(wrong)
        named = sum(bool(labels[1]) for labels in groups.values())
        return f"{len(groups)} processes, {named} of containers"

    def attached(self):
        own = self.piece("groups", "-", "own")
        assert own == "0::/", f"not version 2 alone: {own}"
        return self.labels("groups", dict(list(GROUPS.items())[:4]))

    def by_rule(self):
        """A rule for each group, set before the processes were started there."""
        done = self.labels("rules", GROUPS)
        self.daemon("rules")
        return done

    def from_inside(self):
        """By a daemon that is in a container, and in a control group namespace with it."""
        groups = {name: (path, *labels) for name, (_, path, *labels) in INNER.items()}
        done = self.labels("inner", groups)
        self.daemon("inner")
        return done


# Modules.


class Modules(Answers):
    def comms(self, name):
        """{name of the process: {stack: samples}}"""
        found = {}
        for stack, n in counts(self.said("modules", name)).items():
            found.setdefault(stack.split(";")[0], {})[stack] = n
        return found

    def check_names(self, name):
        """Frames of a module where no other module's could be, functions that the module has."""
        for comm, own in (("busybox-null", "null_blk"), ("busybox-brd", "brd")):
            functions = {line.split()[2] for line in self.piece("modules", own, "symbols").splitlines()}
            for stack, n in self.comms(name).get(comm, {}).items():
                for function, module in re.findall(r";([^;]+?)[ _]\[(null_blk|brd)\]", stack):
                    assert module == own and function in functions, f"{name}: {n} samples: {stack}"

    def through(self, name, comm, module):
        """(samples of such processes with frames of the module, samples)"""
        stacks = self.comms(name).get(comm, {})
        return sum(n for stack, n in stacks.items() if f"[{module}]" in stack), sum(stacks.values())

    def loaded(self, name):
        """{module: (address, bytes)}"""
        lines = (line.split() for line in self.piece("modules", name, "modules").splitlines())
        return {words[0]: (int(words[5], 16), int(words[1])) for words in lines}

    def comes(self):
        self.check_names("early")
        self.check_names("first")
        named, n = self.through("first", "busybox-null", "null_blk")
        assert n >= 200 and named >= 100, f"{named} of {n} samples with functions of null_blk"
        return f"{named} of {n} samples have functions of null_blk"

    def exchanged(self):
        """Another module: no samples of either have names of the other's; and, where it is in its place, no names, since the
        target was sampled before."""
        places = {**self.loaded("first"), **self.loaded("second")}
        (first, size), (second, _) = places["null_blk"], places["brd"]
        for name in ("exchanged", "second", "gone"):
            self.check_names(name)
        named, n = self.through("second", "busybox-brd", "brd")
        within = first <= second < first + size
        assert n >= 100 and (named > 0) != within, f"{named} of {n} samples, within the other's place: {within}"
        where = "within its place" if within else "elsewhere"
        return f"{named} of {n} samples have functions of brd, which lies {where}"

    def anew(self):
        """Of a recording that began after the exchange all is known."""
        stacks = counts(self.piece("modules", "anew", "folded"))
        stacks = {stack: n for stack, n in stacks.items() if stack.startswith("busybox-brd;")}
        named, n = sum(n for stack, n in stacks.items() if "[brd]" in stack), sum(stacks.values())
        assert n >= 100 and named >= 30, f"{named} of {n} samples: {self.piece('modules', 'anew', 'log')}"
        return f"{named} of {n} samples have functions of brd"

    def end(self):
        self.daemon("modules")
        return "ended with 0"


# The wall clock.


class Clock(Answers):
    """The epochs: now, ahead by 8 days, behind by a year of that, and back."""

    def total(self, name):
        return total(self.said("clock", name))

    def target(self, name):
        """What the daemon has sampled, and what of it is in the history."""
        [target], [past] = self.json("clock", name + "-list"), self.json("clock", name + "-history")["targets"]
        assert not target["lost"] and not past["lost"], (target, past)
        return target["samples"], past["samples"]

    def answers(self):
        """In each epoch, about that epoch."""
        counted = []
        for name in ("now", "ahead", "behind", "back"):
            n, around = self.total(name), self.total(name + "-at")
            assert around >= n > 10, f"{name}: {n} samples, {around} of that minute"
            counted.append(f"{name} {n}")
        return "samples " + ", ".join(counted)

    def kept(self):
        """Nothing is lost but what was written under a clock by which it is too old."""
        for name in ("now", "ahead", "behind"):
            history = self.json("clock", name + "-status")["history"]
            assert history["windows_lost"] == 0 and history["problem"] is None, history
            assert not self.json("clock", name + "-history")["gaps"], name
            taken, kept = self.target(name)
            # The open window is not there yet.
            assert kept >= taken / 2 and kept >= self.total(name), f"{name}: {kept} of {taken}"
        first, ahead = self.total("now"), self.total("ahead")
        again = [self.total("now-" + later) for later in ("ahead", "back", "next")]
        assert again[0] >= first and again == [again[0]] * 3, f"at first {first}, later {again}"
        taken, kept = self.target("end")
        dropped, least, most = taken - kept, self.total("behind"), self.target("back")[0] - self.target("ahead")[1]
        assert least <= dropped <= most, f"{dropped} samples were dropped, {least} to {most} were too old"
        [after] = self.json("clock", "next-history")["targets"]
        assert after["samples"] == kept, f"{after['samples']} after a restart, {kept} before"
        return f"{kept} of {taken} samples, with {first} and {ahead} of before the clock was set; {dropped} were a year old"

    def refused(self):
        """What there is no answer to: which is said."""
        for name, why in (("behind-back", "there is no history of"), ("ahead-back", "is not in the past")):
            said, _, status = self.piece("clock", name, "said").rpartition("\n")
            assert status in ("1", "2") and why in said and len(said.splitlines()) == 1, f"{name}: {status}: {said}"
        return "the year before, and the future"

    def recording(self):
        log = self.piece("clock", "record", "log")
        assert log.splitlines()[-1] == "0", log
        seconds = json.loads(self.piece("clock", "record", "stats"))["duration_s"]
        assert 5.9 < seconds < 9, f"a recording of 6 s took {seconds} s"
        return f"{seconds:.1f} s"

    def cost(self):
        costs = [self.json("clock", name + "-status")["daemon"] for name in ("now", "ahead", "behind", "back")]
        cpu_s = [after["cpu_s"] - before["cpu_s"] for before, after in zip(costs, costs[1:])]
        grown = costs[-1]["rss_bytes"] - costs[0]["rss_bytes"]
        # An epoch takes some ten seconds or more; emulation makes all of it slow.
        assert max(cpu_s) < 5, f"CPU time of the epochs: {cpu_s}"
        assert grown < 8 << 20, f"{grown} bytes more"
        for part in ("clock", "clock-next"):
            self.daemon(part)
        return f"CPU {max(cpu_s):.1f} s an epoch at most, memory {grown >> 10:+d} KiB"


def check(pieces):
    """[(what, function that checks it)]"""
    groups, modules, clock = Groups(pieces), Modules(pieces), Clock(pieces)
    return [
        ("control groups, attached by number", groups.attached),
        ("control groups, attached by rule", groups.by_rule),
        ("control groups, from within a container", groups.from_inside),
        ("modules, one comes", modules.comes),
        ("modules, another one in its place", modules.exchanged),
        ("modules, a recording after that", modules.anew),
        ("modules, the daemon", modules.end),
        ("clock, answers under each", clock.answers),
        ("clock, what is kept", clock.kept),
        ("clock, what has no answer", clock.refused),
        ("clock, a recording", clock.recording),
        ("clock, cost", clock.cost),
    ]
