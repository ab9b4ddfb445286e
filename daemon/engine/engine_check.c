// SPDX-License-Identifier: GPL-2.0-or-later
/* Whether this machine can do the work: each thing that is needed or helps, found by trying it. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/engine/engine.h"
#include "daemon/os/privileges.h"
#include "daemon/os/proc_info.h"
#include "daemon/os/watchpoint.h"

/* include/uapi/linux/capability.h */
#define CAP_BIT_SYS_PTRACE         19
#define CAP_BIT_SYS_ADMIN          21
#define CAP_BIT_PERFMON            38
#define CAP_BIT_BPF                39
#define CAP_BIT_CHECKPOINT_RESTORE 40

static bool has_cap(unsigned bit)
{
	return privileges__now() >> bit & 1;
}

static bool check_kernel(char *used, size_t size)
{
	struct utsname name;
	unsigned major = 0, minor = 0;

	if (uname(&name) || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return false;
	snprintf(used, size, "%s %s", name.release, name.machine);
	return !strcmp(name.machine, "x86_64") && (major > 5 || (major == 5 && minor >= 10));
}

static bool check_btf(char *used, size_t size)
{
	snprintf(used, size, "/sys/kernel/btf/vmlinux");
	return !access("/sys/kernel/btf/vmlinux", R_OK);
}

static bool check_load_rights(char *used, size_t size)
{
	bool admin = has_cap(CAP_BIT_SYS_ADMIN);

	snprintf(used, size, "%s", admin ? "CAP_SYS_ADMIN" : "CAP_BPF, CAP_PERFMON");
	return admin || (has_cap(CAP_BIT_BPF) && has_cap(CAP_BIT_PERFMON));
}

static bool check_pid_namespace(char *used, size_t size)
{
	snprintf(used, size, "the machine's own");
	return proc_info__in_first_pid_namespace();
}

static bool check_map_files(char *used, size_t size)
{
	bool admin = has_cap(CAP_BIT_SYS_ADMIN);

	snprintf(used, size, "%s", admin ? "CAP_SYS_ADMIN" : "CAP_CHECKPOINT_RESTORE");
	return admin || has_cap(CAP_BIT_CHECKPOINT_RESTORE);
}

static bool check_ptrace(char *used, size_t size)
{
	snprintf(used, size, "CAP_SYS_PTRACE");
	return has_cap(CAP_BIT_SYS_PTRACE);
}

static bool check_clock_event(char *used, size_t size)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000000,
		.disabled = 1,
	};
	int fd = -1;

	/* The first CPU may be one that this process cannot see; any will do. */
	for (int cpu = 0; cpu < 8 && fd < 0; cpu++)
		fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return false;
	close(fd);
	snprintf(used, size, "PERF_COUNT_SW_CPU_CLOCK, system-wide");
	return true;
}

static bool check_programs(char *used, size_t size)
{
	snprintf(used, size, "perf_event programs");
	return libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_PERF_EVENT, NULL) == 1;
}

static bool check_ringbuf(char *used, size_t size)
{
	snprintf(used, size, "ring buffer map (5.8)");
	return libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, NULL) == 1;
}

static bool check_loop(char *used, size_t size)
{
	snprintf(used, size, "bpf_loop (5.17)");
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_loop, NULL) == 1;
}

static bool check_task_regs(char *used, size_t size)
{
	snprintf(used, size, "bpf_task_pt_regs (5.15)");
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_task_pt_regs, NULL) == 1;
}

static bool check_kallsyms(char *used, size_t size)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/kallsyms", "re");
	unsigned long long address = 0;
	char line[512];

	while (f && !address && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx", &address) != 1)
			break;
	}
	snprintf(used, size, "/proc/kallsyms");
	return address != 0;
}

static bool check_page_tracepoints(char *used, size_t size)
{
	static const char *const names[] = { "btf_trace_page_fault_user", "btf_trace_page_fault_kernel",
					     "btf_trace_mm_page_alloc" };
	struct btf *btf = btf__load_vmlinux_btf();
	bool found = btf;

	for (size_t i = 0; found && i < sizeof(names) / sizeof(names[0]); i++)
		found = btf__find_by_name_kind(btf, names[i], BTF_KIND_TYPEDEF) > 0;
	btf__free(btf);
	snprintf(used, size, "page_fault_user, page_fault_kernel, mm_page_alloc");
	return found;
}

static bool check_watchpoint(char *used, size_t size)
{
	snprintf(used, size, "tried out here");
	return watchpoint__works();
}

static const struct check {
	const char *name;
	bool required;
	bool (*found)(char *used, size_t size);
	const char *without;
} checks[] = {
	{ "kernel 5.10 or newer on x86-64", true, check_kernel, "stakeout cannot work here" },
	{ "kernel type information (BTF)", true, check_btf,
	  "the programs cannot be fitted to the kernel: it needs CONFIG_DEBUG_INFO_BTF=y" },
	{ "rights to load eBPF", true, check_load_rights, "run as root, or give stakeoutd CAP_BPF and CAP_PERFMON" },
	{ "system-wide clock events", true, check_clock_event,
	  "nothing drives the sampler: run as root or with CAP_PERFMON" },
	{ "eBPF programs on perf events", true, check_programs,
	  "nothing can be sampled: run as root, CONFIG_BPF_EVENTS=y" },
	{ "ring buffer", true, check_ringbuf, "stacks cannot be sent to the daemon" },
	{ "the machine's process numbers", true, check_pid_namespace,
	  "the kernel counts samples by numbers that are other processes' here: start stakeoutd outside of the "
	  "container (--pid=host, hostPID: true)" },
	{ "rights over other processes", true, check_ptrace,
	  "the mappings of other users' processes cannot be read: run as root or with CAP_SYS_PTRACE" },
	{ "files through the target's own mappings", false, check_map_files,
	  "deleted and replaced files, and files in other mount namespaces, have no unwind tables and no "
	  "names" },
	{ "loops in eBPF", false, check_loop,
	  "stacks are unwound by chained programs: longer to load, a little slower; there is no 'stakeout memory'" },
	{ "tracepoints of page faults", false, check_page_tracepoints, "there is no 'stakeout memory'" },
	{ "saved user registers", false, check_task_regs,
	  "they are found by the size of the kernel stack, which fits the usual kernel configurations" },
	{ "hardware watchpoints", false, check_watchpoint,
	  "steps cannot be told by a Python function or line, but by a native function: a virtual machine lets them "
	  "not fire" },
	{ "kernel symbols", false, check_kallsyms, "kernel frames have no names: kernel.kptr_restrict, CAP_SYSLOG" },
};

static int quiet(enum libbpf_print_level level, const char *format, va_list ap)
{
	return 0;
}

json_t *engine__check(void)
{
	json_t *all = json_array();

	libbpf_set_print(quiet);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		const struct check *c = &checks[i];
		char used[128] = "";
		bool found = c->found(used, sizeof(used));

		json_array_append_new(all, json_pack("{s:s, s:b, s:b, s:s, s:s}", "name", c->name, "found", found,
						     "required", c->required, "used", found ? used : "", "without",
						     c->without));
	}
	return all;
}
