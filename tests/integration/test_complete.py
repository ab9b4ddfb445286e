# SPDX-License-Identifier: GPL-2.0-or-later
"""Complete stacks: every workload, at 99.9 % or more, and the names that must be in them."""
import os
import shutil
import subprocess

from harness import (
    LONG,
    PYTHON,
    Daemon,
    Skip,
    Target,
    long,
    need_bpf,
    need_module,
    need_namespaces,
    need_tool,
    parse_folded,
    quiet,
    record,
    script,
    start,
    temporary_dir,
    timeout,
    wait_until,
    workload,
)


def check(target, *functions, share=0.999, least=50, **options):
    """Records a target; its stacks are complete, and half of them or more go through the functions."""
    recording = record(target.pid, **options).check_complete(share, least)
    if functions:
        seen = recording.count(*functions)
        assert seen >= recording.samples / 2, f"{functions}: {seen} of {recording.samples}; {recording.examples('')}"
    return recording


def test_shared_library_and_pie():
    check(start("split", 600), "main", "split_bag", "split_kernel")


def test_static():
    check(start("split-static", 600), "main", "split_bag", "split_kernel")


def test_no_pie():
    check(start("split-nopie", 600), "main", "split_bag", "split_kernel")


def unnamed(name, function):
    """How a function is called in the stripped program: by where it begins, which the whole one knows."""
    symbols = subprocess.run([need_tool("nm"), workload(name)], capture_output=True, check=True, text=True).stdout
    (begin,) = (line.split()[0] for line in symbols.splitlines() if line.endswith(f" {function}"))
    return f"[{name}-stripped+{int(begin, 16):#x}]"


def test_stripped():
    functions = [unnamed("split", function) for function in ("main", "split_bag", "split_kernel")]
    summary = check(start("split-stripped", 600), *functions).stderr
    # main() is no part of the line of the C library that calls it.
    assert functions[-1] in summary and "libc_start" not in summary.split("function (file:line)")[-1], summary


@long
def test_stripped_cpp():
    check(start("cpp_sim-stripped", 600), unnamed("cpp_sim", "_ZN3sim9run_epochEm"))


@long
def test_static_threads():
    check(start("threads-static", 600), "thread_main", "thread_burn")


def test_deep_600_frames():
    check_depth(check(start("deep", 600, 600), "main", "deep_leaf"), 600)


@long
def test_deep_600_frames_static():
    check_depth(check(start("deep-static", 600, 600), "main", "deep_leaf"), 600)


def check_depth(recording, depth):
    """Every complete stack has all frames of the recursion, no more and no less."""
    for stack, n in recording.stacks.items():
        if "deep_leaf" in stack and not stack[1].startswith("[truncated:"):
            seen = stack.count("deep_recurse")
            assert seen == depth, f"{n} × {seen} frames: {stack[:3]} … {stack[-5:]}"


def test_deeper_than_kept_is_marked():
    """More frames than are kept: the samples stay, cut and marked."""
    recording = record(start("deep", 600, 5000).pid).check_totals()
    depth = recording.stats["truncated"].get("depth", 0)
    assert depth >= 0.9 * recording.samples, recording.stats
    assert recording.count("[truncated:depth]", "deep_recurse", "deep_leaf") >= 0.9 * recording.samples
    assert all(stack.count("deep_recurse") > 500 for stack in recording.stacks if "[truncated:depth]" in stack)


@long
def test_signal_handler():
    recording = check(start("signals", "normal", 600), "main", "main_loop")
    both = recording.count("main_loop", "on_signal", "handler_leaf")
    assert both > recording.samples / 10, f"{both} of {recording.samples} in the handler"


def test_signal_handler_on_alternate_stack():
    recording = check(start("signals", "alt", 600), "main", "main_loop")
    both = recording.count("main_loop", "on_signal", "handler_leaf")
    assert both > recording.samples / 10, f"{both} of {recording.samples} in the handler"


def test_realigned_stack():
    check(start("realign", 600), "main", "realign_caller", "realign_64", "realign_32", "realign_leaf")


def test_coroutines():
    """Stacks that begin at no function of the system's: all three kinds, with their first functions."""
    recording = check(start("coroutines", 600), share=0.99)
    for kind in ("linked", "unlinked", "own"):
        seen = recording.count(f"{kind}_main", f"{kind}_work")
        assert seen >= recording.samples / 10, f"{kind}: {seen} of {recording.samples}; {recording.examples('')}"


def test_plt():
    recording = check(start("plt_heavy", 600), "main", "plt_calls")
    for function in ("tiny_rotate", "tiny_add"):
        assert recording.count(function) > 0, recording.stacks


def test_vdso():
    check(start("clock", 600), "main", "read_clock", "__vdso_clock_gettime")


def record_vfork():
    recording = record(start("vfork", 600).pid, duration=4 if LONG else 2).check_totals()
    assert recording.count("main", "vfork_once", "vfork_child_work", comm="vfork") > 0
    assert recording.count("main", "spawn_once", comm="vfork") > 0
    return recording, {stack: n for stack, n in recording.stacks.items() if stack[0] == "vfork"}


def test_vfork():
    _, own = record_vfork()
    uncut = sum(n for stack, n in own.items() if not stack[1].startswith("[truncated"))
    assert uncut > sum(own.values()) / 2, own


@quiet
def test_vfork_cuts_few_stacks():
    """The child works above its parent's stack. A new child's first instructions, between the system call of clone
    and its first frame, are not described by the C library's unwind information; and the programs that the children
    become live for a millisecond, too short to read their memory maps in time: both may be cut, and say so. They are so
    many a child, however few samples a busy machine leaves of the rest."""
    recording, own = record_vfork()
    cut = {}
    for stack, n in own.items():
        if stack[1].startswith("[truncated"):
            frames = (stack[1], *(f for f in stack[2:] if not f.endswith("_[k]")))
            cut[frames] = cut.get(frames, 0) + n
    young = sum(n for frames, n in cut.items() if frames[1:] in ((), ("clone3",), ("[unknown]",)))
    assert young <= 0.05 * sum(own.values()), f"{young} of {sum(own.values())}; {cut}"
    assert sum(cut.values()) - young <= 0.005 * sum(own.values()), f"{sum(own.values())}; {cut}"
    assert recording.count("main", "vfork_once", "vfork_child_work", comm="vfork") > sum(own.values()) / 2


def test_threads():
    check(start("threads", 600, 8), "thread_main", "thread_burn")


def test_cpp():
    """Some of its samples hit libgcc while it rewrites a frame to go on at a handler: 1 in 9,000, hence their number."""
    recording = check(start("cpp_sim", 600), "sim::run_epoch", duration=4, rate=1999)
    expected = ("sim::World::step", "sim::Gravity::apply", "sim::Policy::choose", "sim::World::observe")
    for function in expected:
        assert any(function in stack for stack in recording.stacks), f"no {function}; {recording.examples('sim::', 10)}"


def test_rust():
    recording = check(start("rust_sim", 600))
    assert any("rust_sim::" in f for stack in recording.stacks for f in stack), recording.examples("")


def check_go(name, *stacks):
    """The assembly functions of Go's runtime may have the name of their calling convention behind their own."""
    recording = check(start(name, 600), "main.worker", duration=2, share=0.99)
    for functions in (
        ("runtime.goexit", "main.worker", "main.inC", "runtime.cgocall", "runtime.asmcgocall"),
        ("runtime.goexit", "main.worker", "main.inGo", "main.goWork"),
        ("runtime.goexit", "main.worker", "main.readClock", "time.now"),
        *stacks,
    ):
        names = [{frame.removesuffix(".abi0") for frame in stack} for stack in recording.stacks]
        seen = sum(n for found, n in zip(names, recording.stacks.values()) if found.issuperset(functions))
        assert seen >= recording.samples / 50, f"{functions}: {seen} of {recording.samples}; {recording.examples('')}"


def test_go():
    """Goroutines have stacks of their own, which calls of C and parts of the runtime leave for the thread's."""
    check_go("go_sim", ("runtime.goexit", "main.inC", "runtime.asmcgocall", "c_outer", "c_inner"))


def test_go_stripped():
    """Names come from the table that the runtime has for its own stack traces."""
    check_go("go_sim-stripped")


def test_switcher():
    """Nearly all samples hit the kernel, in system calls."""
    check(start("switcher", 600))


def test_sleeper_gives_few_samples():
    """A process that sleeps is not sampled while it does."""
    recording = record(start("sleeper", 600).pid).check_totals()
    assert recording.samples < 200, recording.samples


def test_numpy():
    need_module("numpy")
    target = Target([PYTHON, script("matmul.py"), 600])
    recording = check(target, duration=5)
    assert len(recording.stacks) > 5


@long
def test_numpy_with_kernels_of_other_processors():
    """Each processor family has code of its own in the library, by hand and without rules: what is met first is learned
    while both threads go on in it."""
    need_module("numpy")
    with open("/proc/cpuinfo", encoding="ascii") as f:
        modern = " avx2 " in f.read()
    for processor in ("Nehalem", "Haswell", "Zen") if modern else ("Nehalem",):
        target = Target([PYTHON, script("matmul.py"), 600], env={**os.environ, "OPENBLAS_CORETYPE": processor})
        check(target, duration=3, env={**os.environ, "STAKEOUT_CACHE_DIR": temporary_dir()})
        target.process.kill()


@long
def test_numpy_once_its_kernels_are_known():
    """What was learned of code without rules is kept with the tables: the next daemon need not learn it again."""
    need_module("numpy")
    target = Target([PYTHON, script("matmul.py"), 600])
    folder = temporary_dir()
    env = {**os.environ, "STAKEOUT_CACHE_DIR": folder}
    check(target, duration=4, env=env)
    learned = [f for f in os.listdir(folder) if f.endswith("-l.unwind")]
    if not learned:
        raise Skip("this BLAS has unwind information for all its code")
    check(target, duration=4, env=env)


@long
def test_pytorch():
    """A policy network that plays and learns."""
    need_module("torch")
    target = Target([PYTHON, script("train.py"), 600])
    recording = check(target, duration=8, rate=499, share=0.995)
    assert any("torch" in f or "at::" in f for stack in recording.stacks for f in stack), recording.examples("")


@long
def test_pytorch_with_generated_code():
    """Convolutions run in machine code that a library writes at run time, without unwind information and with
    numbers in rbp: its rules are learned from the code."""
    need_module("torch")
    target = Target([PYTHON, script("train.py"), 600, "conv"])
    recording = check(target, duration=8, rate=499, share=0.995)
    assert recording.count("[jit]") > 0, recording.stats


def distribution_program(argv):
    """A program as Debian ships it, which must run for long enough."""
    need_bpf()
    return record(Target(argv, ready=False).pid, duration=2).check_complete()


@long
def test_debian_xz():
    xz = need_tool("xz")
    need_bpf()
    target = Target(["sh", "-c", f"head -c 4G /dev/urandom | {xz} -9 -T1 >/dev/null"], ready=False, comm="xz")
    record(target.pid, duration=3).check_complete()


def test_debian_openssl_assembly():
    """Hand-written vector code."""
    distribution_program([need_tool("openssl"), "speed", "-seconds", "20", "rsa2048", "sha512"])


def openssl_speed(*algorithm, share=0.99, least=50):
    """Records a benchmark of OpenSSL that has begun to run the algorithm."""
    target = Target([need_tool("openssl"), "speed", "-seconds", "20", *algorithm], ready=False)
    assert target.process.stderr.read(6) == b"Doing ", algorithm
    recording = record(target.pid, duration=1).check_complete(share, least)
    target.process.kill()
    return recording


def test_debian_openssl_frames_by_other_registers():
    """The caller's stack pointer is in a register that calls need not keep, but the functions called leave it alone:
    rax in AES-GCM, r11 in AES-CTR. In modular multiplication it is in an array whose index is in another register."""
    for algorithm in (
        ("-bytes", "16384", "-evp", "aes-128-gcm"),
        ("-bytes", "16384", "-evp", "aes-128-ctr"),
        ("ecdsap521",),
    ):
        recording = openssl_speed(*algorithm)
        outermost = recording.count("__libc_start_main")
        assert outermost >= 0.99 * recording.samples, f"{algorithm}: {recording.examples('')}"


@long
@timeout(1200)
def test_debian_openssl_each_algorithm():
    """Every cipher and digest that `openssl speed` knows."""
    names = set()
    for kind in ("cipher", "digest"):
        out = subprocess.check_output([need_tool("openssl"), "list", "-1", f"-{kind}-algorithms"], text=True)
        names.update(line.split(" => ")[0].strip() for line in out.splitlines())
    for name in sorted(names):
        algorithm = ["-provider", "legacy", "-provider", "default", "-bytes", "16384", "-evp", name]
        known = subprocess.run(["openssl", "speed", "-seconds", "1", *algorithm], capture_output=True, check=False)
        if known.returncode == 0:
            openssl_speed(*algorithm)


@long
def test_debian_glpsol():
    """A solver, on a market split problem, which keeps it busy for longer than the test takes."""
    solver = need_tool("glpsol")
    path = os.path.join(temporary_dir(), "knapsack.mod")
    with open(path, "w", encoding="ascii") as f:
        f.write(
            "set I := 1..30; set J := 1..4;\n"
            "param a{j in J, i in I} := floor(Uniform(0, 100));\n"
            "var x{I}, binary; var over{J} >= 0; var under{J} >= 0;\n"
            "minimize miss: sum{j in J} (over[j] + under[j]);\n"
            "s.t. half{j in J}: sum{i in I} a[j, i] * x[i] + over[j] - under[j] = floor(sum{i in I} a[j, i] / 2);\n"
            "solve;\nend;\n"
        )
    distribution_program([solver, "--math", path])


def test_debian_ripgrep():
    """A Rust program of the distribution."""
    search = need_tool("rg")
    need_bpf()
    shell = f"while :; do {search} --no-ignore -c '(a.*b.*c.*){{5}}' /usr/lib /usr/share >/dev/null; done"
    target = Target(["sh", "-c", shell], ready=False, comm="rg")
    record(target.pid, duration=2).check_complete()


# Files that are not where the memory map says.


def copied(name, *others):
    """A copy of a workload (and the files it needs) in a directory of its own."""
    where = temporary_dir()
    for file in (name, *others):
        shutil.copy(workload(file), where)
    return os.path.join(where, name)


def test_deleted_binary():
    path = copied("split")
    target = Target([path, 600])
    os.unlink(path)
    check(target, "main", "split_bag", "split_kernel")


def test_replaced_binary():
    """Another file lies at the path by now: the names and the rules must be those of the running one."""
    path = copied("split")
    target = Target([path, 600])
    shutil.copy(workload("deep"), path + ".new")
    os.rename(path + ".new", path)
    check(target, "main", "split_bag", "split_kernel")


def test_replaced_library():
    path = copied("plt_heavy", "libtiny.so")
    target = Target([path, 600])
    library = os.path.join(os.path.dirname(path), "libtiny.so")
    shutil.copy(workload("plugin.so"), library + ".new")
    os.rename(library + ".new", library)
    recording = check(target, "main", "plt_calls")
    assert recording.count("tiny_rotate") > 0


def test_without_section_headers():
    """Only the program headers lead to the unwind information."""
    path = copied("split")
    with open(path, "r+b") as f:
        header = bytearray(f.read(64))
        header[40:48] = bytes(8)  # e_shoff
        header[60:64] = bytes(4)  # e_shnum, e_shstrndx
        f.seek(0)
        f.write(header)
    check(Target([path, 600]))


def test_other_mount_namespace():
    need_namespaces()
    where = temporary_dir()
    shell = f"mount -t tmpfs none {where} && cp {workload('split')} {where}/hidden && exec {where}/hidden 30"
    target = Target(["unshare", "--mount", "--fork", "sh", "-c", shell], comm="hidden")
    assert not os.path.exists(os.path.join(where, "hidden"))
    check(target, "main", "split_bag", "split_kernel")


def test_other_pid_namespace():
    need_namespaces()
    target = Target(
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", workload("split"), "30"], comm="split"
    )
    check(target, "main", "split_bag", "split_kernel")


def test_perf_map_in_other_namespaces():
    """The map lies in the process's own /tmp, under its PID in its own namespace."""
    need_namespaces()
    # Opened before the new /tmp hides what is below the old one, where the program may lie.
    shell = f"exec 3<{workload('jitter')} && mount -t tmpfs none /tmp && exec /proc/self/fd/3 fp 30 map"
    target = Target(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", shell], comm="3")
    check_learned(target, "main", "jit_loop", "call_jit", "jit_hot_loop")


def test_other_root():
    """In a changed root directory, as containers have it."""
    need_namespaces()
    root = temporary_dir()
    shutil.copy(workload("split-static"), root)
    if os.stat(root).st_dev is None or not shutil.which("chroot", path="/usr/sbin:/usr/bin"):
        raise Skip("chroot is not there")
    target = Target(["chroot", root, "/split-static", "30"])
    check(target, "main", "split_bag", "split_kernel")


def test_text_that_was_moved_to_anonymous_memory():
    """As programs do that want it in huge pages: the code is still that of their file."""
    for variant in ("text_copy", "text_copy-nopie", "text_copy-static"):
        target = start(variant, 600)
        recording = check(target, "main", "copied_loop", "copied_kernel", least=20)
        assert "jit" not in recording.stderr and not recording.count("[jit]"), recording.stderr
        target.process.kill()


@long
def test_javascript_in_large_pages():
    """Where transparent huge pages are not to be had Node says so, and runs from its file."""
    check(javascript("--use-largepages=on"), "node::Start", "uv_run", **GENERATED)


# Code without unwind information: the first samples in it are cut until its rules are learned, and say so.


def check_learned(target, *functions, share=0.5):
    recording = check(target, *functions, share=share)
    assert {cause for cause, n in recording.stats["truncated"].items() if n} <= {"no-rules"}, recording.stats
    return recording


def test_jit_with_frame_pointers():
    recording = check_learned(start("jitter", "fp", 600), "main", "jit_loop", "call_jit")
    assert recording.count("[jit]") > recording.samples / 2, recording.examples("")


def test_jit_with_names():
    check_learned(start("jitter", "fp", 600, "map"), "main", "jit_loop", "call_jit", "jit_hot_loop")


def test_jit_that_reuses_an_address():
    """Samples have the name that the code had when they were taken; where it changed within a window, both."""
    daemon = Daemon()
    target = start("jitter", "fp", 600, "reuse", stdin=subprocess.PIPE)
    path = f"/v1/targets/{daemon.request('POST', '/v1/targets', {'pid': target.pid, 'rate_hz': 999}, expect=201)['id']}"
    wait_until(lambda: daemon.request("GET", path)["samples"] > 100, "samples of the first name")
    target.process.stdin.write(b"x")
    target.process.stdin.flush()
    for _ in range(3):
        target.process.stdout.readline()
    stacks = parse_folded(daemon.client("folded", "-p", str(target.pid)).stdout)

    def count(name):
        return sum(n for stack, n in stacks.items() if name in stack)

    names = [f"generation_{i}" for i in range(4)]
    alone = [count(name) for name in names]
    both = [count(f"{a} or {b} [reused address]") for a, b in zip(names, names[1:])]
    found = f"alone {alone}, either of two {both}; {stacks}"
    assert sum(alone) + sum(both) >= 0.99 * count("call_jit"), found
    true = 0.7 * 999  # GENERATION_CPU_S at 999 Hz
    for i in (1, 2):
        assert alone[i] <= 1.1 * true and alone[i] + both[i - 1] + both[i] >= 0.9 * true, found
        # A window is a quarter of a second.
        assert alone[i] >= 0.5 * true, found


@quiet
def test_code_is_learned_at_once():
    for mode, kind in (("fp", "map"), ("nofp", "map"), ("root", "map"), ("nofp", "rwx")):
        check_learned(start("jitter", mode, 600, kind), "main", "jit_loop", "call_jit", share=0.999)


def test_jit_without_frame_pointers_is_learned():
    for mode in ("nofp", "root"):
        check_learned(start("jitter", mode, 600, "map"), "main", "jit_loop", "call_jit", "jit_hot_loop")


# At the rate that people use: while the daemon learns the first code of a large program, it keeps some thirty samples that
# wait for that, and the compilers go on throwing code away. Where the code is not understood, some 3 % are complete.
GENERATED = {"share": 0.9, "least": 30, "rate": 99, "duration": 4}


def javascript(*options):
    """Where V8 leaves a log of its own, with --perf-basic-prof, it is in the working directory."""
    return Target([need_tool("node"), *options, script("timers.js")], cwd=temporary_dir())


@long
def test_javascript():
    """V8's own code for calls and built-in functions, and what its compilers write: none has unwind information."""
    check(javascript(), "node::Start", "uv_run", **GENERATED)


@long
def test_javascript_not_optimised():
    """Calls whose callees leave less on the stack than they found, as V8's convention has it."""
    check(javascript("--no-opt"), "node::Start", "uv_run", **GENERATED)


def test_javascript_with_names():
    target = javascript("--perf-basic-prof")
    try:
        recording = check(target, "node::Start", "uv_run", **GENERATED)
        named = sum(n for stack, n in recording.stacks.items() if any(" " in f and "timers.js:" in f for f in stack))
        assert named >= recording.samples / 2, recording.examples("")
        # The line is the one in which the function begins, whichever compiler made the code.
        assert recording.count("encode (timers.js:5)") > 0, recording.examples("")
    finally:
        os.unlink(f"/tmp/perf-{target.pid}.map")


def java(*options, rounds=400):
    """Compiled first: a program in a source file would bring the compiler along."""
    classes = temporary_dir()
    run = need_tool("java")
    subprocess.run([need_tool("javac"), "-d", classes, script("Rounds.java")], check=True)
    return Target([run, *options, "-cp", classes, "Rounds", str(rounds)])


def test_java():
    """Compiled code in memory that stays writable, called from the interpreter by jumps."""
    recording = check(java(), "[jit]", **GENERATED)
    assert recording.count("start_thread", "[jit]") + recording.count("clone3", "[jit]") > 0, recording.examples("")


@long
def test_java_first_compiler():
    check(java("-XX:TieredStopAtLevel=1"), "[jit]", **GENERATED)


@long
def test_java_interpreted():
    check(java("-Xint", rounds=10), "[jit]", **GENERATED)


def test_jit_in_writable_memory_is_learned():
    recording = check_learned(start("jitter", "nofp", 600, "rwx"), "main", "jit_loop", "call_jit")
    assert recording.count("[jit]") > recording.samples / 2, recording.examples("")


def test_jit_names_of_a_process_that_has_ended():
    """What it left in /tmp is read after its end."""
    target = start("jitter", "fp", 3)
    name = f"/tmp/perf-{target.pid}.map"
    with open(f"/proc/{target.pid}/maps", encoding="ascii") as maps:
        page = next(line.split("-")[0] for line in maps if " r-xp 00000000 00:00 0" in line and "[" not in line)
    try:
        with open(name, "w", encoding="ascii") as f:
            f.write(f"{page} 1000 left_behind\n")
        recording = record(target.pid, duration=30).check_totals()
    finally:
        os.unlink(name)
    assert recording.count("call_jit", "left_behind") > recording.samples / 2, recording.examples("")


def test_code_that_cannot_be_learned_is_marked():
    recording = record(start("jitter", "opaque-nofp", 600, "map").pid).check_totals()
    marked = recording.count("[truncated:no-rules]", "jit_hot_loop")
    assert marked > 0.9 * recording.samples, recording.stats


def test_frame_pointer_root_is_marked():
    recording = record(start("jitter", "opaque-root", 600, "map").pid).check_totals()
    marked = recording.count("[truncated:frame-pointer-root]", "jit_hot_loop")
    assert marked > 0.9 * recording.samples, recording.stats


def test_code_that_comes_and_goes():
    """What is unmapped while it is read: nothing is lost, what was cut names its cause."""
    recording = record(start("unmapper", 600).pid).check_totals()
    assert recording.samples > 100, recording.samples
    known = {"maps-pending", "no-mapping", "no-rules", "frame-pointer-root", "stack-unreadable"}
    assert {c for c, n in recording.stats["truncated"].items() if n} <= known, recording.stats
