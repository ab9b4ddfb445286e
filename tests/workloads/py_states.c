// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What programs that embed CPython do, as functions to be called from Python with the GIL held (ctypes.PyDLL): a thread
 * goes to a thread state of its own making, runs code there and comes back. Made without CPython's headers: all is
 * found in the program that it is loaded into.
 */
#include <dlfcn.h>

typedef void *state;

static void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static state swap(state to)
{
	return ((state (*)(state))find("PyThreadState_Swap"))(to);
}

static int run(const char *code)
{
	return ((int (*)(const char *, void *))find("PyRun_SimpleStringFlags"))(code, 0);
}

/* In another thread state of the first interpreter. */
int run_in_state(const char *code)
{
	void *interpreter = ((void *(*)(void))find("PyInterpreterState_Main"))();
	state made = ((state (*)(void *))find("PyThreadState_New"))(interpreter), before = swap(made);
	int ret = run(code);

	((void (*)(state))find("PyThreadState_Clear"))(made);
	swap(before);
	((void (*)(state))find("PyThreadState_Delete"))(made);
	return ret;
}

/* In a new interpreter. */
int run_in_interpreter(const char *code)
{
	state before = swap(0), made;
	int ret;

	swap(before);
	made = ((state (*)(void))find("Py_NewInterpreter"))();
	if (!made)
		return -1;
	ret = run(code);
	((void (*)(state))find("Py_EndInterpreter"))(made);
	swap(before);
	return ret;
}
