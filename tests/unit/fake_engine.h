/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An engine without a kernel, for the tests of what lies above engine.h: targets live in memory and end by the
 * clock, a profile is whatever bytes the test gave. Any process may be attached, real or not.
 */
#ifndef STAKEOUT_TEST_FAKE_ENGINE_H
#define STAKEOUT_TEST_FAKE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"

/* The owner that the next attached targets have; default: the caller's own uid. */
void fake_engine__set_owner(struct engine *engine, uid_t uid);
/* The next engine__attach fails so. */
void fake_engine__fail_attach(struct engine *engine, int code, const char *text);
/* A child of all targets, which cannot be attached; engine__threads looks at it. 0: none. */
void fake_engine__set_child(struct engine *engine, pid_t pid);
/* What engine__profile answers (copied); default: a small gzip-compressed profile. */
void fake_engine__set_profile(struct engine *engine, const void *bytes, size_t length);
/* The target's process exits now. */
void fake_engine__exit(struct engine *engine, uint32_t id);
/* Whether the open window of every target has samples of a generation that turned old. */
void fake_engine__carry(struct engine *engine, bool carries);
/* Whether windows have processes that the viewers of their targets may not see. */
void fake_engine__hide(struct engine *engine, bool hides);
/* What the processes of every target have; not known before this. */
void fake_engine__set_memory(struct engine *engine, const struct engine_memory_use *use);
/* The living target whose root process is pid; 0: there is none. */
uint32_t fake_engine__target_of(struct engine *engine, pid_t pid);
/* Targets that exist, ended ones too. */
size_t fake_engine__count(struct engine *engine);
#define FAKE_ENGINE_PROFILE_SAMPLES 3 /* in the default profile, which each window has */

/* Samples of the windows that were taken of targets, once engine__end_windows() was called for these. */
uint64_t fake_engine__in_windows(struct engine *engine);
/* What the latest engine__attach was asked. */
struct attach_options fake_engine__last_attach(struct engine *engine);

#endif
