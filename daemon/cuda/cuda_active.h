/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much of a time a target had for making calls. While its thread waits for the GPU it makes no other call, and
 * waits are counted all the time: so that is known of times off as well, and what a time on has seen stands for so much of
 * such time, not of all time. That one time on meets a wait and another a burst is no error then.
 *
 * The thread that is asked is the one that makes most calls, or one during whose waits the others make none: training waits in the main
 * thread, and a thread of autograd's makes half of the calls. How many they make is counted in times on. Where there is no such thread
 * all time is taken for time in which calls are made.
 */
#ifndef STAKEOUT_CUDA_ACTIVE_H
#define STAKEOUT_CUDA_ACTIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CUDA_ACTIVE_THREADS \
	16 /* of those that make calls; of more, the ones that make the fewest have one place together */

#define CUDA_ACTIVE_CALLS_MOST 1000.0 /* that a time on counts for: of more each weighs less */

/* What a thread has ever spent in other calls than those of the cycled kinds, and the calls of these that others made meanwhile. */
struct cuda_active_waits {
	uint64_t ns, others, n; /* n: that are over */
};

/* All zero: nobody is known to make calls. */
struct cuda_active {
	struct {
		pid_t tid;
		unsigned idle; /* times on since it was in a call */
		bool is_known; /* waits, then: when the time on began, and when it has ended those in it */
		struct cuda_active_waits waits;
		/*
		 * What is older weighs less. calls: of the cycled kinds. Of times on: what it waited, in how many, and calls that others made
		 * meanwhile.
		 */
		double calls, waited_ns, times, others;
	} threads[CUDA_ACTIVE_THREADS];
	unsigned n;
	uint64_t on_began_ns, on_ended_ns; /* the time on; 0: it is not known when */
	double on_ns, on_calls;            /* of times on of which that is known; what is older weighs less */
	uint64_t looked_ns;                /* the last look */
	pid_t tid;                         /* of the thread that was looked at; 0: none */
	bool is_known;                     /* waits, then */
	struct cuda_active_waits waits;
	/* Between the last two looks: time for making calls, and waits that ended. ns 0: not known. */
	struct {
		double ns, waits;
	} last;
	double known_ns,
		active_ns; /* time that is known, and what of it was for making calls; what is older weighs less */
};

enum cuda_active_told {
	CUDA_ACTIVE_KNOWN,
	CUDA_ACTIVE_LATER, /* the thread may be in a call whose probes were placed anew meanwhile */
	CUDA_ACTIVE_NEVER, /* it cannot be asked, or has ended */
};

/* Reads a thread's waits, one under way included. */
typedef enum cuda_active_told cuda_active_read(void *context, pid_t tid, uint64_t now_ns,
					       struct cuda_active_waits *waits);

/*
 * The part of the time since the last look in which calls may have been made, 0 to 1; negative: it will be as cuda_active__usual() some time.
 * keep: this is a look.
 */
double cuda_active__share(struct cuda_active *active, uint64_t now_ns, bool keep, cuda_active_read *read,
			  void *context);
/* Probes of other calls are placed anew: some returns are not seen. */
void cuda_active__interrupt(struct cuda_active *active);
/* Other kinds come and go, or stay: nothing is known of their waits. */
void cuda_active__change_kinds(struct cuda_active *active);
/* The part of other time that was for making calls. Negative: not known yet. */
double cuda_active__usual(const struct cuda_active *active);

/* A time on begins: nothing of its calls is counted yet. */
void cuda_active__begin_on(struct cuda_active *active, uint64_t now_ns, cuda_active_read *read, void *context);
/* It is over, and what is counted from now on is of no interest: to be asked for before anything that takes long. */
void cuda_active__look_on(struct cuda_active *active, uint64_t now_ns, cuda_active_read *read, void *context);
/*
 * What it has counted, in this order: what is older weighs less; the calls of the cycled kinds that each thread made in it, 0 of those that
 * were in others alone; and what they waited, with all these calls. weight: with which they were added.
 */
void cuda_active__age(struct cuda_active *active);
void cuda_active__add_calls(struct cuda_active *active, pid_t tid, double calls);
void cuda_active__end_on(struct cuda_active *active, double calls, double weight);

#endif
