// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/processes/process_labels.h"

#define ID_A  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID_B  "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define POD   "3f2a61c4-0d5e-4a1b-9c7d-112233445566"
#define POD_U "3f2a61c4_0d5e_4a1b_9c7d_112233445566"

#define ENVIRON(text, rank_, local_, world_)                              \
	do {                                                              \
		struct process_labels l = { .rank = "" };                 \
		process_labels__from_environ(text, sizeof(text) - 1, &l); \
		assert_string_equal(l.rank, rank_);                       \
		assert_string_equal(l.local_rank, local_);                \
		assert_string_equal(l.world_size, world_);                \
	} while (0)

static void ranks(void **state)
{
	ENVIRON("HOME=/\0RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0", "3", "1", "8");
	ENVIRON("RANK=0\0", "0", "", "");
	ENVIRON("RANK=007\0LOCAL_RANK=000\0", "7", "0", "");
	ENVIRON("OMPI_COMM_WORLD_RANK=5\0OMPI_COMM_WORLD_LOCAL_RANK=2\0OMPI_COMM_WORLD_SIZE=6\0", "5", "2",
		"6");
	ENVIRON("SLURM_PROCID=9\0SLURM_LOCALID=1\0SLURM_NTASKS=16\0SLURM_STEP_ID=0\0", "9", "1", "16");
	ENVIRON("MV2_COMM_WORLD_RANK=5\0MV2_COMM_WORLD_LOCAL_RANK=2\0MV2_COMM_WORLD_SIZE=6\0", "5", "2", "6");
	ENVIRON("MPI_LOCALNRANKS=2\0MPI_LOCALRANKID=1\0PMI_RANK=3\0PMI_SIZE=4\0", "3", "1", "4");
	/* Hydra's proxies are tasks of a step, one a node; srun's own tasks have no local rank of this kind. */
	ENVIRON("SLURM_PROCID=1\0SLURM_STEP_ID=0\0SLURM_NTASKS=2\0MPI_LOCALRANKID=0\0PMI_RANK=3\0PMI_SIZE=6\0",
		"3", "0", "6");
	ENVIRON("SLURM_PROCID=9\0SLURM_LOCALID=1\0SLURM_NTASKS=16\0SLURM_STEP_ID=0\0PMI_RANK=9\0PMI_SIZE=16\0",
		"9", "1", "16");
	/* The innermost launcher, all of it. */
	ENVIRON("SLURM_PROCID=1\0SLURM_LOCALID=0\0SLURM_NTASKS=2\0RANK=12\0LOCAL_RANK=4\0WORLD_SIZE=16\0", "12",
		"4", "16");
	ENVIRON("SLURM_PROCID=1\0SLURM_LOCALID=0\0RANK=12\0", "12", "", "");
	ENVIRON("WORLD_SIZE=4\0SLURM_STEP_ID=3\0SLURM_PROCID=1\0SLURM_NTASKS=2\0", "1", "", "2");
	/* As for getenv(). */
	ENVIRON("RANK=1\0RANK=2\0", "1", "", "");
}

/* As sbatch of Slurm 22.05 starts it, and as torchrun, mpirun and srun inherit it: no task of any step. */
static void a_batch_script_has_no_rank(void **state)
{
	ENVIRON("SLURM_LOCALID=0\0SLURM_NODEID=0\0SLURM_NPROCS=2\0SLURM_NTASKS=2\0SLURM_PROCID=0\0"
		"SLURM_TASKS_PER_NODE=2\0SLURM_TASK_PID=29018\0",
		"", "", "");
	ENVIRON("SLURM_NTASKS=2\0SLURM_PROCID=0\0OMPI_COMM_WORLD_RANK=1\0OMPI_COMM_WORLD_SIZE=2\0", "1", "",
		"2");
}

static void what_is_no_rank(void **state)
{
	ENVIRON("", "", "", "");
	ENVIRON("\0\0\0", "", "", "");
	ENVIRON("RANK=\0", "", "", "");
	ENVIRON("RANK=-1\0", "", "", "");
	ENVIRON("RANK=1a\0", "", "", "");
	ENVIRON("RANK= 1\0", "", "", "");
	ENVIRON("RANK=1\n2\0", "", "", "");
	ENVIRON("RANK=1234567890\0", "", "", "");
	ENVIRON("RANK=123456789\0", "123456789", "", "");
	ENVIRON("RANK=hunter2\0LOCAL_RANK=1\0", "", "", "");
	ENVIRON("MY_RANK=1\0RANKS=1\0rank=1\0", "", "", "");
	ENVIRON("LOCAL_RANK=1\0WORLD_SIZE=8\0", "", "", "");
	/* Cut off: the value may go on. */
	ENVIRON("LOCAL_RANK=1\0RANK=1", "", "", "");
	ENVIRON("RANK=x\0RANK=2\0", "", "", "");
}

static void equal_labels_are_equal_bytes(void **state)
{
	static const char inner[] = "0::/kubepods/pod0123456789abcdef0123456789abcdef";
	struct process_labels a = { .rank = "" }, b = { .rank = "" };

	process_labels__from_cgroup(inner, &a);
	process_labels__from_cgroup("0::/kubepods/pod" POD "/pod0123456789abcdef0123456789abcdef", &b);
	assert_memory_equal(&a, &b, sizeof(a));

	process_labels__from_environ("RANK=1\0", 7, &a);
	process_labels__from_environ("RANK=000000001\0SECRET=xyzzy\0", 28, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_true(process_labels__any(&a));
	assert_false(process_labels__any(&(struct process_labels){ .rank = "" }));
}

static void expect_cgroup(const char *text, const char *container, const char *pod)
{
	struct process_labels l = { .rank = "" };

	process_labels__from_cgroup(text, &l);
	if (strcmp(l.container, container) || strcmp(l.pod, pod))
		fail_msg("%s: '%s', '%s'", text, l.container, l.pod);
}

static void containers(void **state)
{
	expect_cgroup("0::/system.slice/docker-" ID_A ".scope\n", ID_A, "");
	expect_cgroup("12:pids:/docker/" ID_A "\n1:name=systemd:/docker/" ID_A "\n", ID_A, "");
	expect_cgroup("0::/machine.slice/libpod-" ID_A ".scope/container\n", ID_A, "");
	expect_cgroup("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_U
		      ".slice/cri-containerd-" ID_A ".scope\n",
		      ID_A, POD);
	expect_cgroup("0::/kubepods/besteffort/pod" POD "/" ID_A "\n", ID_A, POD);
	expect_cgroup("0::/kubepods.slice/kubepods-pod" POD_U ".slice/crio-" ID_A ".scope\n", ID_A, POD);
	expect_cgroup("0::/system.slice/containerd.service/kubepods-burstable-pod" POD_U
		      ".slice:cri-containerd:" ID_A,
		      ID_A, POD);
	expect_cgroup("0::/lxc.payload.web/system.slice/docker-" ID_A ".scope\n", ID_A, "");
	/* From within a control group namespace: in another class of pods, in the same, and in the same pod. */
	expect_cgroup("0::/../../../besteffort/pod" POD "/" ID_A "\n", ID_A, POD);
	expect_cgroup("0::/../../pod" POD "/" ID_A "\n", ID_A, POD);
	expect_cgroup("0::/../" ID_A "\n", ID_A, "");
	expect_cgroup("0::/../../kubepods-burstable-pod" POD_U ".slice/cri-containerd-" ID_A ".scope\n", ID_A,
		      POD);
	expect_cgroup("0::/../../../../system.slice/docker-" ID_A ".scope\n", ID_A, "");
	/* The innermost one. */
	expect_cgroup("0::/docker/" ID_A "/kubelet/kubepods/pod" POD "/" ID_B, ID_B, POD);
	expect_cgroup("0::/kubepods/pod0123456789abcdef0123456789abcdef/" ID_A, ID_A,
		      "0123456789abcdef0123456789abcdef");
	expect_cgroup("0::/kubepods/pod" POD "/pod0123456789abcdef0123456789abcdef", "",
		      "0123456789abcdef0123456789abcdef");
}

static void what_is_no_container(void **state)
{
	expect_cgroup("", "", "");
	expect_cgroup("0::/", "", "");
	expect_cgroup("0::/user.slice/user-1000.slice\n", "", "");
	expect_cgroup("0::/docker/" ID_A "0\n", "", "");
	expect_cgroup("0::/docker/0123456789abcdef\n", "", "");
	expect_cgroup("0::/machine.slice/crio-conmon-" ID_A ".scope\n", "", "");
	expect_cgroup("0::/pod" POD "\n", "", "");
	expect_cgroup("0::/lxc.payload.web\n", "", "");
	expect_cgroup("0::/machine.slice/libpod-conmon-" ID_A ".scope\n", "", "");
	expect_cgroup("0::/kubepods/pod" POD "0/x\n", "", "");
	expect_cgroup("0::/kubepods/podium\n", "", "");
	/* One line's pods are no other's. */
	expect_cgroup("1:a:/kubepods\n0::/pod" POD "\n", "", "");
}

static void a_process_is_read(void **state)
{
	char *const argv[] = { "sleep", "60", NULL }, *const envp[] = { "RANK=4", "TOKEN=secret", NULL };
	struct process_labels l;
	pid_t pid = fork();
	int status;

	if (!pid) {
		execve("/bin/sleep", argv, envp);
		_exit(1);
	}
	for (int i = 0; i < 10000; i++) {
		process_labels__read(pid, &l);
		if (!strcmp(l.rank, "4"))
			break;
		usleep(10000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	assert_string_equal(l.rank, "4");
	process_labels__read(pid, &l);
	assert_false(process_labels__any(&l));
}

static struct process_labels of_rank(int rank)
{
	struct process_labels l = { .rank = "" };

	snprintf(l.rank, sizeof(l.rank), "%d", rank);
	return l;
}

static void tables(void **state)
{
	struct process_label_table t = { 0 }, copy = { 0 };
	struct process_labels l;

	assert_int_equal(process_label_table__find(NULL, 1), PROCESS_LABELS_NONE);
	assert_int_equal(process_label_table__find(&t, 1), PROCESS_LABELS_NONE);
	for (int pid = 1000; pid > 0; pid--) {
		l = of_rank(pid % 8);
		process_label_table__set(&t, pid, &l);
	}
	assert_int_equal(t.n_sets, 8);
	assert_int_equal(t.n_processes, 1000);
	for (int pid = 1; pid <= 1000; pid++)
		assert_int_equal(atoi(process_label_table__get(&t, pid).rank), pid % 8);
	assert_false(process_labels__any(&(struct process_labels){ .rank = "" }));
	process_label_table__inherit(&t, 2000, 3);
	assert_string_equal(process_label_table__get(&t, 2000).rank, "3");
	/* Replaced, dropped, and a number used again. */
	l = of_rank(77);
	process_label_table__set(&t, 3, &l);
	assert_string_equal(process_label_table__get(&t, 3).rank, "77");
	assert_string_equal(process_label_table__get(&t, 2000).rank, "3");
	process_label_table__set(&t, 4, &(struct process_labels){ .rank = "" });
	assert_int_equal(process_label_table__find(&t, 4), PROCESS_LABELS_NONE);
	process_label_table__inherit(&t, 5, 4);
	assert_int_equal(process_label_table__find(&t, 5), PROCESS_LABELS_NONE);
	assert_string_equal(process_label_table__get(&t, 6).rank, "6");
	process_label_table__copy(&t, &copy);
	process_label_table__release(&t);
	assert_int_equal(t.n_processes, 0);
	assert_string_equal(process_label_table__get(&copy, 3).rank, "77");
	assert_string_equal(process_label_table__get(&copy, 1000).rank, "0");
	process_label_table__release(&copy);
}

static bool is_even(void *context, pid_t tgid)
{
	++*(unsigned *)context;
	return tgid % 2 == 0;
}

static void tables_forget(void **state)
{
	struct process_label_table t = { 0 };
	unsigned asked = 0;

	process_label_table__keep(&t, is_even, &asked);
	for (int pid = 1; pid <= 100; pid++) {
		struct process_labels l = of_rank(pid % 8);

		process_label_table__set(&t, pid, &l);
	}
	process_label_table__keep(&t, is_even, &asked);
	assert_int_equal(asked, 100);
	assert_int_equal(t.n_processes, 50);
	assert_int_equal(process_label_table__find(&t, 51), PROCESS_LABELS_NONE);
	assert_string_equal(process_label_table__get(&t, 52).rank, "4");
	process_label_table__release(&t);
}

static void tables_have_a_limit(void **state)
{
	struct process_label_table t = { 0 };
	struct process_labels l;

	for (int pid = 1; pid <= PROCESS_LABELS_MAX_SETS + 10; pid++) {
		l = of_rank(pid);
		process_label_table__set(&t, pid, &l);
	}
	assert_int_equal(t.n_sets, PROCESS_LABELS_MAX_SETS);
	assert_int_equal(process_label_table__find(&t, PROCESS_LABELS_MAX_SETS + 1), PROCESS_LABELS_NONE);
	for (int pid = 1; pid <= PROCESS_LABELS_MAX_PROCESSES + 10; pid++)
		process_label_table__inherit(&t, pid, 1);
	assert_int_equal(t.n_processes, PROCESS_LABELS_MAX_PROCESSES);
	process_label_table__release(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks),
		cmocka_unit_test(a_batch_script_has_no_rank),
		cmocka_unit_test(what_is_no_rank),
		cmocka_unit_test(equal_labels_are_equal_bytes),
		cmocka_unit_test(containers),
		cmocka_unit_test(what_is_no_container),
		cmocka_unit_test(a_process_is_read),
		cmocka_unit_test(tables),
		cmocka_unit_test(tables_forget),
		cmocka_unit_test(tables_have_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
