# SPDX-License-Identifier: GPL-2.0-or-later
# Stand-ins for NVIDIA's libraries, in three builds (ibt: functions begin with endbr64 and keep a frame pointer; plain: neither;
# thunk: what is exported only jumps, thunks.sh), and programs that call them. Where the CUDA toolkit is installed, also programs that call the real runtime, which finds no GPU.

CUDA_DIR  := $(BUILD)/workloads/cuda
CUDA_SRC  := tests/workloads/cuda
CUDA_HDRS := $(wildcard $(CUDA_SRC)/*.h) tests/workloads/work.h include/stakeout/cuda_api.h

CUDA_DRIVER_SRCS  := $(addprefix $(CUDA_SRC)/,standin_core.c standin_script.c standin_truth.c standin_memory.c standin_kernels.c standin_driver.c standin_driver_more.c)
CUDA_RUNTIME_SRCS := $(addprefix $(CUDA_SRC)/,runtime_driver.c runtime_kernels.c standin_runtime.c standin_runtime_more.c)
CUDA_RUNTIME_OBJS := $(CUDA_RUNTIME_SRCS:$(CUDA_SRC)/%.c=%.o)

CUDA_CFLAGS  := -std=gnu11 -O2 -g -Wall -Wextra -Wno-unused-parameter -Werror -D_GNU_SOURCE -Iinclude -fno-shrink-wrap
CUDA_ibt     := -fcf-protection=full -fno-omit-frame-pointer
CUDA_plain   := -fcf-protection=none -fomit-frame-pointer
# Stripped, as NVIDIA's are: names only in .dynsym.
CUDA_SO      := -fPIC -fvisibility=hidden -shared -s -Wl,--no-undefined -Wl,-Bsymbolic-functions -Wl,-rpath,'$$ORIGIN'

CUDA_STANDINS := $(foreach v,ibt plain,$(addprefix $(CUDA_DIR)/$(v)/,libcuda.so.1 libcudart.so.12 libcudart.so libnvidia-ml.so.1 \
	libcudart_static.a libcudart_static_hidden.a))

define CUDA_VARIANT
$(CUDA_DIR)/$(1)/libcuda.so.1: $(CUDA_DRIVER_SRCS) $(CUDA_HDRS)
	@mkdir -p $$(@D)
	$(Q)gcc $(CUDA_CFLAGS) $(CUDA_$(1)) $$(CUDA_SO) -Wl,-soname,libcuda.so.1 -o $$@ $$(filter %.c,$$^) -pthread

$(CUDA_DIR)/$(1)/libcudart.so.12: $(CUDA_RUNTIME_SRCS) $(CUDA_SRC)/libcudart.map $(CUDA_HDRS)
	@mkdir -p $$(@D)
	$(Q)gcc $(CUDA_CFLAGS) $(CUDA_$(1)) $$(CUDA_SO) -Wl,-soname,libcudart.so.12,--version-script=$(CUDA_SRC)/libcudart.map -o $$@ $$(filter %.c,$$^) -ldl -pthread

$(CUDA_DIR)/$(1)/libcudart.so: $(CUDA_DIR)/$(1)/libcudart.so.12
	$(Q)ln -sf libcudart.so.12 $$@

$(CUDA_DIR)/$(1)/libnvidia-ml.so.1: $(CUDA_SRC)/standin_nvml.c $(CUDA_HDRS)
	@mkdir -p $$(@D)
	$(Q)gcc $(CUDA_CFLAGS) $(CUDA_$(1)) $$(CUDA_SO) -Wl,-soname,libnvidia-ml.so.1 -o $$@ $$<

# Calls are global in a program that links it, and in its .symtab only.
$(CUDA_DIR)/$(1)/libcudart_static.a: $(addprefix $(CUDA_DIR)/$(1)/static/,$(CUDA_RUNTIME_OBJS))
	$(Q)rm -f $$@ && $(AR) rcs $$@ $$^

$(CUDA_DIR)/$(1)/static/%.o: $(CUDA_SRC)/%.c $(CUDA_HDRS)
	@mkdir -p $$(@D)
	$(Q)gcc $(CUDA_CFLAGS) $(CUDA_$(1)) -fPIC -DSTANDIN_IMAGE='"static"' -c -o $$@ $$<

# As NVIDIA's archive of CUDA 13 has them: hidden, so that the linker makes those it binds local.
$(CUDA_DIR)/$(1)/libcudart_static_hidden.a: $(addprefix $(CUDA_DIR)/$(1)/hidden/,$(CUDA_RUNTIME_OBJS))
	$(Q)rm -f $$@ && $(AR) rcs $$@ $$^

$(CUDA_DIR)/$(1)/hidden/%.o: $(CUDA_SRC)/%.c $(CUDA_HDRS)
	@mkdir -p $$(@D)
	$(Q)gcc $(CUDA_CFLAGS) $(CUDA_$(1)) -fPIC -fvisibility=hidden -DSTANDIN_VISIBILITY='"hidden"' -DSTANDIN_IMAGE='"static"' -c -o $$@ $$<
endef
$(foreach v,ibt plain,$(eval $(call CUDA_VARIANT,$(v))))

CUDA_THUNK_runtime_LINK := -Wl,--version-script=$(CUDA_SRC)/libcudart.map
define CUDA_THUNKS
CUDA_THUNK_$(1)_OBJS := $$(patsubst $(CUDA_SRC)/%.c,$(CUDA_DIR)/thunk/$(1)/%.o,$(2))

$(CUDA_DIR)/thunk/$(1)/%.o: $(CUDA_SRC)/%.c $(CUDA_HDRS)
	@mkdir -p $$(@D)
	$(Q)gcc $(CUDA_CFLAGS) $(CUDA_plain) -fPIC -fvisibility=hidden -c -o $$@ $$<

# "standin_" is what no CUDA library has.
$(CUDA_DIR)/thunk/$(3): $$(CUDA_THUNK_$(1)_OBJS) $(CUDA_SRC)/thunks.sh $(CUDA_SRC)/libcudart.map
	$(Q)ld -r -o $(CUDA_DIR)/thunk/$(1)/all.o $$(CUDA_THUNK_$(1)_OBJS)
	$(Q)nm --defined-only $(CUDA_DIR)/thunk/$(1)/all.o | sed -n 's/^.* T \(_*cu\(da\)\{0,1\}[A-Z_]\)/\1/p' | \
		$(CUDA_SRC)/thunks.sh $(1) $(CUDA_DIR)/thunk/$(1)/names $(CUDA_DIR)/thunk/$(1)/thunks.s
	$(Q)objcopy --redefine-syms=$(CUDA_DIR)/thunk/$(1)/names $(CUDA_DIR)/thunk/$(1)/all.o
	$(Q)gcc -shared -s -Wl,--no-undefined -Wl,-rpath,'$$$$ORIGIN' -Wl,-soname,$(3) $$(CUDA_THUNK_$(1)_LINK) -o $$@ \
		$(CUDA_DIR)/thunk/$(1)/all.o $(CUDA_DIR)/thunk/$(1)/thunks.s -ldl -pthread
endef
$(eval $(call CUDA_THUNKS,driver,$(CUDA_DRIVER_SRCS),libcuda.so.1))
$(eval $(call CUDA_THUNKS,runtime,$(CUDA_RUNTIME_SRCS),libcudart.so.12))
CUDA_STANDINS += $(addprefix $(CUDA_DIR)/thunk/,libcuda.so.1 libcudart.so.12)

CUDA_STANDINS += $(CUDA_DIR)/plain/libjump.so
$(CUDA_DIR)/plain/libjump.so: $(CUDA_SRC)/jump.c $(CUDA_HDRS) $(CUDA_DIR)/plain/libcuda.so.1
	$(Q)gcc $(CUDA_CFLAGS) $(CUDA_plain) $(CUDA_SO) -o $@ $< -ldl

# Programs find the plain libraries; LD_LIBRARY_PATH=…/ibt puts the others before them.
CUDA_PROGRAMS := $(addprefix $(CUDA_DIR)/,cuda_calls cuda_each cuda_dlopen cuda_static cuda_static_hidden cuda_static_stripped \
	cuda_blocked cuda_training cuda_training13 cuda_training_stripped cuda_training13_stripped cuda_real cuda_lines)
CUDA_PROGRAM_CFLAGS := -std=gnu11 -O2 -g -fomit-frame-pointer -Wall -Wextra -Wno-unused-parameter -Werror -D_GNU_SOURCE -Iinclude
CUDA_LINK     := -L$(CUDA_DIR)/plain -lcudart -Wl,-rpath,'$$ORIGIN/plain' -ldl -pthread
CUDA_STATIC_LINK := -Wl,-rpath,'$$ORIGIN/plain' -ldl -pthread

$(CUDA_DIR)/cuda_calls $(CUDA_DIR)/cuda_blocked: $(CUDA_DIR)/%: $(CUDA_SRC)/%.c $(CUDA_HDRS) | $(CUDA_STANDINS)
	$(Q)gcc $(CUDA_PROGRAM_CFLAGS) -o $@ $< $(CUDA_LINK)

# Calls by name alone.
$(CUDA_DIR)/cuda_each $(CUDA_DIR)/cuda_dlopen $(CUDA_DIR)/cuda_real: $(CUDA_DIR)/%: $(CUDA_SRC)/%.c $(CUDA_HDRS) | $(CUDA_STANDINS)
	$(Q)gcc $(CUDA_PROGRAM_CFLAGS) -o $@ $< $(CUDA_STATIC_LINK)

$(CUDA_DIR)/cuda_training $(CUDA_DIR)/cuda_lines: $(CUDA_DIR)/%: $(CUDA_SRC)/%.cpp $(CUDA_HDRS) | $(CUDA_STANDINS)
	$(Q)g++ -std=c++17 -O2 -g -fomit-frame-pointer -Wall -Wextra -Wno-unused-parameter -Werror -D_GNU_SOURCE -o $@ $< $(CUDA_LINK)

# Host stubs as nvcc 13 makes them, which launch by handle.
$(CUDA_DIR)/cuda_training13: $(CUDA_SRC)/cuda_training.cpp $(CUDA_HDRS) | $(CUDA_STANDINS)
	$(Q)g++ -std=c++17 -O2 -g -fomit-frame-pointer -Wall -Wextra -Wno-unused-parameter -Werror -D_GNU_SOURCE -DLAUNCH_BY_HANDLE -o $@ $< $(CUDA_LINK)

$(CUDA_DIR)/cuda_static: $(CUDA_SRC)/cuda_static.c $(CUDA_HDRS) $(CUDA_STANDINS)
	$(Q)gcc $(CUDA_PROGRAM_CFLAGS) -o $@ $< $(CUDA_DIR)/plain/libcudart_static.a $(CUDA_STATIC_LINK)

$(CUDA_DIR)/cuda_static_hidden: $(CUDA_SRC)/cuda_static.c $(CUDA_HDRS) $(CUDA_STANDINS)
	$(Q)gcc $(CUDA_PROGRAM_CFLAGS) -o $@ $< $(CUDA_DIR)/plain/libcudart_static_hidden.a $(CUDA_STATIC_LINK)

$(CUDA_DIR)/cuda_static_stripped $(CUDA_DIR)/cuda_training_stripped $(CUDA_DIR)/cuda_training13_stripped: \
		$(CUDA_DIR)/%_stripped: $(CUDA_DIR)/%
	$(Q)strip -s -o $@ $<

# The real runtime, linked as nvcc does by default: statically.
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
ifneq ($(NVCC),)
CUDA_PROGRAMS += $(CUDA_DIR)/nvcc_loop
$(CUDA_DIR)/nvcc_loop: $(CUDA_SRC)/nvcc_loop.cu
	@mkdir -p $(@D)
	$(Q)$(NVCC) -O2 -o $@ $<
endif

.PHONY: cuda-workloads
cuda-workloads: $(CUDA_STANDINS) $(CUDA_PROGRAMS)
workloads: cuda-workloads

# Do the declarations here agree with an installed toolkit's? CUDA_INCLUDE: its headers.
CUDA_INCLUDE ?= /usr/local/cuda/include
.PHONY: cuda-signatures
cuda-signatures:
	gcc -std=gnu11 -fsyntax-only -DSTANDIN_REAL_HEADERS -I$(CUDA_INCLUDE) $(CUDA_SRC)/signatures.c
	gcc -std=gnu11 -fsyntax-only -DSTANDIN_REAL_HEADERS -D__CUDA_API_VERSION_INTERNAL -I$(CUDA_INCLUDE) $(CUDA_SRC)/signatures.c
