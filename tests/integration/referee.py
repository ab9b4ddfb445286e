# SPDX-License-Identifier: GPL-2.0-or-later
"""eu-stack of elfutils as an independent referee: the stack of a stopped process, compared with what was sampled
while it ran."""
import os
import re
import signal
import subprocess
import time

from harness import WORKLOAD_DIR, need_tool, wait_until, status_of

# Names of one and the same function: the referee reads all symbols and takes another one of several.
ALIASES = {
    "__clone3": "clone3",
    "__restore_rt": "restore_rt",
    "__libc_start_main_impl": "libc_start_main",
    "__libc_start_main": "libc_start_main",
    "__pthread_kill_implementation": "pthread_kill",
    "__pthread_kill": "pthread_kill",
    "__GI_raise": "raise",
    "gsignal": "raise",
}


class Frame:
    """A frame of the referee: the function, if it knows it, and the file."""

    def __init__(self, name, module):
        self.name, self.module = name, os.path.basename(module)

    def __repr__(self):
        return f"{self.name or '?'} ({self.module})"

    def is_the_same_as(self, name):
        """Whether stakeout's frame of this name is the same one."""
        if not self.name or name.startswith("["):
            # No symbol of a known size covers the address; a referee that reads more symbols may know one.
            return name == f"[{self.module}]"
        return plain(self.name) == plain(name)


def plain(name):
    """Without version, C++ arguments and leading underscores."""
    name = re.sub(r"@.*", "", name)
    name = re.sub(r"(?<!operator)\((?!anonymous).*", "", name)
    return ALIASES.get(name, name.lstrip("_"))


def stacks_of(pid):
    """{tid: frames from the innermost to the outermost} of all threads, by eu-stack."""
    out = subprocess.run([need_tool("eu-stack"), "-m", "-n", "0", "-p", str(pid)], capture_output=True, check=False)
    stacks, frames = {}, None
    for line in out.stdout.decode(errors="replace").splitlines():
        match = re.fullmatch(r"TID (\d+):", line)
        if match:
            frames = stacks.setdefault(int(match.group(1)), [])
            continue
        match = re.fullmatch(r"#\d+ +0x[0-9a-f]+(?: (.*?))? - (\S.*)", line)
        if match and frames is not None:
            frames.append(Frame((match.group(1) or "").strip(), match.group(2)))
    return stacks


def stack_with_leaf(target, leaf, tries=50):
    """Stops the target where its innermost function is `leaf`; that thread's frames. The target stays stopped."""
    for _ in range(tries):
        os.kill(target.pid, signal.SIGSTOP)
        wait_until(lambda: status_of(target.pid)["State"][0] in "tT", "the target's stop")
        for frames in stacks_of(target.pid).values():
            if frames and leaf in frames[0].name:
                return frames
        os.kill(target.pid, signal.SIGCONT)
        time.sleep(0.013)
    raise AssertionError(f"the referee never saw {leaf} innermost")


def compare(recording, frames, leaf, several_callers=False):
    """Every sampled stack that ends in the leaf (where it has several callers: those through the same one) has the
    referee's frames, one by one. How many samples that was."""
    matched = 0
    for stack, count in recording.stacks.items():
        user = [f for f in stack[1:] if not f.endswith("_[k]")][::-1]
        if not user or leaf not in user[0]:
            continue
        if several_callers and user[1:2] != [frames[1].name]:
            continue
        assert len(user) == len(frames), f"{len(user)} frames, the referee has {len(frames)}:\n{user}\n{frames}"
        for i, (name, frame) in enumerate(zip(user, frames)):
            own = os.path.exists(os.path.join(WORKLOAD_DIR, frame.module))
            assert not (own and name.startswith("[")), f"frame {i}: {name} has no name, the referee says {frame}"
            known = frame.is_the_same_as(name) or (name == f"[{frame.module}]" and not own)
            assert known, f"frame {i}: {name}, the referee says {frame}\n{user}\n{frames}"
        matched += count
    return matched
