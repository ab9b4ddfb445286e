# SPDX-License-Identifier: GPL-2.0-or-later
# The programs that tests and the demo watch, compiled as a distribution would: optimised, without frame pointers.

WORKLOAD_DIR    := $(BUILD)/workloads
WORKLOAD_CFLAGS := -O2 -fomit-frame-pointer -Wall -Wextra -Werror -D_GNU_SOURCE
WORKLOAD_C      := split clock deep signals realign plt_heavy vfork threads forker burst execer dlopener jitter coroutines unmapper switcher sleeper stuck resonant fuse_hang steps alloc_count lazy_stack text_copy probed leader_exits late_code reloader
WORKLOADS       := $(addprefix $(WORKLOAD_DIR)/,$(WORKLOAD_C) torch/libc10.so torch_old/libc10.so not_python cpp_sim cpp_lines mem_grow plugin.so libtiny.so alloc_pool.so py_states.so alloc_count-static reload_a.so reload_b.so \
	split-static split-nopie split-stripped deep-static deep-stripped threads-static cpp_sim-stripped text_copy-static text_copy-nopie)
RUSTC           := $(firstword $(wildcard /usr/bin/rustc) $(shell command -v rustc 2>/dev/null))
ifneq ($(RUSTC),)
WORKLOADS       += $(WORKLOAD_DIR)/rust_sim
endif
GO              := $(firstword $(wildcard /usr/bin/go) $(shell command -v go 2>/dev/null))
ifneq ($(GO),)
WORKLOADS       += $(addprefix $(WORKLOAD_DIR)/,go_sim go_sim-stripped)
endif
WORKLOAD_HDRS   := $(wildcard tests/workloads/*.h)

.PHONY: workloads
workloads: $(WORKLOADS)

$(WORKLOAD_DIR)/plt_heavy: tests/workloads/plt_heavy.c $(WORKLOAD_DIR)/libtiny.so $(WORKLOAD_HDRS)
	@mkdir -p $(@D)
	$(Q)gcc $(WORKLOAD_CFLAGS) -o $@ $< -L$(@D) -ltiny -Wl,-z,lazy -Wl,-rpath,'$$ORIGIN'

$(WORKLOAD_DIR)/not_python: tests/workloads/not_python.c $(WORKLOAD_HDRS)
	@mkdir -p $(@D)
	$(Q)gcc $(WORKLOAD_CFLAGS) -rdynamic -o $@ $<

$(WORKLOAD_DIR)/libtiny.so: tests/workloads/tiny.c
	@mkdir -p $(@D)
	$(Q)gcc $(WORKLOAD_CFLAGS) -fPIC -shared -o $@ $<

$(WORKLOAD_DIR)/alloc_pool.so $(WORKLOAD_DIR)/py_states.so: $(WORKLOAD_DIR)/%.so: tests/workloads/%.c
	@mkdir -p $(@D)
	$(Q)gcc $(WORKLOAD_CFLAGS) -fPIC -shared -o $@ $<

$(WORKLOAD_DIR)/alloc_count-static: tests/workloads/alloc_count.c
	@mkdir -p $(@D)
	$(Q)gcc $(WORKLOAD_CFLAGS) -DNO_LIBRARY -static -o $@ $< -pthread

$(WORKLOAD_DIR)/plugin.so: tests/workloads/plugin.c $(WORKLOAD_HDRS)
	@mkdir -p $(@D)
	$(Q)gcc $(WORKLOAD_CFLAGS) -fPIC -shared -o $@ $<

# Alike but for the name and the size of a frame.
$(WORKLOAD_DIR)/reload_a.so: RELOADED := -DLETTER=a -DFRAME_WORDS=8
$(WORKLOAD_DIR)/reload_b.so: RELOADED := -DLETTER=b -DFRAME_WORDS=400
$(WORKLOAD_DIR)/reload_a.so $(WORKLOAD_DIR)/reload_b.so: tests/workloads/reloaded.c $(WORKLOAD_HDRS)
	@mkdir -p $(@D)
	$(Q)gcc $(WORKLOAD_CFLAGS) $(RELOADED) -fPIC -shared -o $@ $<

$(WORKLOAD_DIR)/cpp_sim: tests/workloads/cpp_sim.cpp $(WORKLOAD_HDRS)
	@mkdir -p $(@D)
	$(Q)g++ $(WORKLOAD_CFLAGS) -std=c++17 -o $@ $< -pthread

# The one with debug information.
$(WORKLOAD_DIR)/cpp_lines: tests/workloads/cpp_lines.cpp
	@mkdir -p $(@D)
	$(Q)g++ $(WORKLOAD_CFLAGS) -g -std=c++17 -o $@ $<

$(WORKLOAD_DIR)/mem_grow: tests/workloads/mem_grow.cpp
	@mkdir -p $(@D)
	$(Q)g++ $(WORKLOAD_CFLAGS) -g -std=c++17 -o $@ $<

# Its name is what it is found by. Its functions begin with a push, as the true ones do: probes there are emulated.
$(WORKLOAD_DIR)/torch/libc10.so $(WORKLOAD_DIR)/torch_old/libc10.so: tests/workloads/torch_c10.cpp
	@mkdir -p $(@D)
	$(Q)g++ $(WORKLOAD_CFLAGS) -fno-omit-frame-pointer $(if $(findstring torch_old,$@),-DOLD_FORM) -std=c++17 -fPIC -shared -o $@ $<

$(WORKLOAD_DIR)/go_sim: tests/workloads/go_sim.go
	@mkdir -p $(@D)
	$(Q)GO111MODULE=off GOFLAGS= GOCACHE=$(abspath $(BUILD))/go-cache GOPATH=$(abspath $(BUILD))/go-path CGO_ENABLED=1 CC=gcc $(GO) build -o $@ $<

$(WORKLOAD_DIR)/go_sim-stripped: tests/workloads/go_sim.go
	@mkdir -p $(@D)
	$(Q)GO111MODULE=off GOFLAGS= GOCACHE=$(abspath $(BUILD))/go-cache GOPATH=$(abspath $(BUILD))/go-path CGO_ENABLED=1 CC=gcc $(GO) build -ldflags="-s -w" -o $@ $<

$(WORKLOAD_DIR)/rust_sim: tests/workloads/rust_sim.rs
	@mkdir -p $(@D)
	$(Q)$(RUSTC) -O -C force-frame-pointers=no -o $@ $<

$(WORKLOAD_DIR)/%-static: tests/workloads/%.c $(WORKLOAD_HDRS)
	@mkdir -p $(@D)
	$(Q)gcc $(WORKLOAD_CFLAGS) -static -o $@ $< -pthread

$(WORKLOAD_DIR)/%-nopie: tests/workloads/%.c $(WORKLOAD_HDRS)
	@mkdir -p $(@D)
	$(Q)gcc $(WORKLOAD_CFLAGS) -fno-pie -no-pie -o $@ $< -pthread

$(WORKLOAD_DIR)/%-stripped: $(WORKLOAD_DIR)/%
	$(Q)strip -o $@ $<

$(WORKLOAD_DIR)/%: tests/workloads/%.c $(WORKLOAD_HDRS)
	@mkdir -p $(@D)
	$(Q)gcc $(WORKLOAD_CFLAGS) -o $@ $< -pthread -ldl
