/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The line of a stack that its user wrote, as far as files and paths tell. */
#ifndef STAKEOUT_CLIENT_OWN_LINE_H
#define STAKEOUT_CLIENT_OWN_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "client/render/frame_text.h"
#include "profile/profile.h"

/*
 * Index of profile->lines: the innermost Python line outside of the standard library and of installed packages; without
 * one the innermost outside of the modules that others wait with (threading, queue, ...), or the innermost of all;
 * without Python the innermost user frame outside of the C and C++ libraries, one with a name before one without.
 * SIZE_MAX: the sample has no frame.
 */
size_t own_line(const struct profile *profile, const struct profile_sample *sample);
/*
 * Appends "function (file.py:line)", ", file PATH" where its thread waits for a file, and ", cudaStreamSynchronize"
 * where it waits for the GPU in that call, as the tables of `stakeout cuda` name it; nothing without a frame.
 * -ENOMEM.
 */
int own_line__text(const struct profile *profile, const struct profile_sample *sample, struct text *text);

/*
 * The call into CUDA in which the thread waits for the GPU, the program's own: a runtime's calls the driver's. It may
 * sleep there or, as CUDA does where it is not told otherwise, run all the time until the GPU is done. NULL: in none.
 */
const char *own_line__gpu_wait(const struct profile *profile, const struct profile_sample *sample);

/* A Python line outside of the standard library and of installed packages. */
bool is_own_python(const struct profile_line *line);
/* That, or a script's that a just-in-time compiler names. */
bool is_own_code(const struct profile_line *line);

/*
 * What a Python thread was started to do: index of the line of its first function below threading.Thread. SIZE_MAX: it
 * is no such thread, or no Python.
 */
size_t thread_role(const struct profile *profile, const struct profile_sample *sample);
/* "file PATH]" where the frame is no code but the file that its thread waits for; otherwise NULL. */
const char *waited_file(const struct profile_line *line);

#endif
