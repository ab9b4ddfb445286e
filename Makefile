# SPDX-License-Identifier: GPL-2.0-or-later
# make · make demo · make record PID=… · make check · make bench · make install · make dist

BUILD   ?= build
PREFIX  ?= /usr/local
CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
CLANG   ?= $(firstword $(foreach c,clang clang-14 clang-15 clang-16 clang-17 clang-18 clang-19,$(shell command -v $(c))) clang)
BPFTOOL ?= $(shell PATH=$$PATH:/usr/sbin:/sbin command -v bpftool)
PROTOC_C ?= protoc-c
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo 0.1.0)

# SANITIZE=1 builds everything in user space with ASan and UBSan.
SANITIZE ?=
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter -Werror
CFLAGS  ?= -O2 -g
ALL_CFLAGS := -std=gnu11 $(WARN) $(CFLAGS) -D_GNU_SOURCE -DSTAKEOUT_VERSION='"$(VERSION)"' -I. -Iinclude -I$(BUILD) -I$(BUILD)/gen -fno-omit-frame-pointer
LDFLAGS ?=
ifneq ($(SANITIZE),)
ALL_CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDFLAGS += -fsanitize=address,undefined
endif

LIBS_DAEMON := -lbpf -lsqlite3 -lcapstone -ldw -lelf -llzma -lzstd -lz -lmicrohttpd -ljansson -lprotobuf-c -liberty -lpthread -lm
LIBS_CLIENT := -lcurl -ljansson -lprotobuf-c -lz -lm
LIBS_TEST   := -lcmocka $(LIBS_DAEMON) -lcurl

PROTO_C := $(BUILD)/gen/stakeout/profile.pb-c.c
DAEMON_SRCS := $(wildcard daemon/*.c)
CLIENT_SRCS := $(wildcard client/*.c)
PROFILE_SRCS := $(wildcard profile/*.c)
BPF_SRCS    := $(wildcard bpf/*.bpf.c)
SKELETONS   := $(BPF_SRCS:bpf/%.bpf.c=$(BUILD)/bpf/%.skel.h)
PROFILE_OBJS := $(PROFILE_SRCS:%.c=$(BUILD)/%.o) $(PROTO_C:.c=.o)
DAEMON_OBJS := $(DAEMON_SRCS:%.c=$(BUILD)/%.o) $(PROFILE_OBJS)
CLIENT_OBJS := $(CLIENT_SRCS:%.c=$(BUILD)/%.o) $(PROFILE_OBJS)

.PHONY: all
all: $(BUILD)/stakeoutd $(BUILD)/stakeout

$(BUILD)/stakeoutd: $(DAEMON_OBJS)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_DAEMON)

$(BUILD)/stakeout: $(CLIENT_OBJS)
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_CLIENT)

# Generated: the profile schema's C code, the BPF objects and their skeletons.
$(BUILD)/gen/stakeout/profile.pb-c.c $(BUILD)/gen/stakeout/profile.pb-c.h &: include/stakeout/profile.proto
	@mkdir -p $(BUILD)/gen/stakeout
	$(PROTOC_C) --proto_path=include --c_out=$(BUILD)/gen stakeout/profile.proto

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h) $(wildcard include/stakeout/*.h)
	@mkdir -p $(@D)
	$(CLANG) -target bpf -D__TARGET_ARCH_x86 -O2 -g -Wall -Werror -mcpu=v3 -I. -Iinclude -I/usr/include/$(shell uname -m)-linux-gnu -c $< -o $@

$(BUILD)/bpf/%.skel.h: $(BUILD)/bpf/%.bpf.o
	$(BPFTOOL) gen skeleton $< name $*_bpf > $@.tmp && mv $@.tmp $@

$(BUILD)/gen/stakeout/%.pb-c.o: $(BUILD)/gen/stakeout/%.pb-c.c
	$(CC) $(ALL_CFLAGS) -Wno-error -c $< -o $@

$(BUILD)/%.o: %.c $(BUILD)/gen/stakeout/profile.pb-c.h $(SKELETONS)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# Built in by the assembler, of which the compiler does not tell.
$(BUILD)/daemon/api_schema.o: daemon/api_schema.json

# The version is compiled in: what holds it is made anew when it changes.
$(BUILD)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' > $@
.PHONY: FORCE
$(patsubst %.c,$(BUILD)/%.o,$(shell grep -ls STAKEOUT_VERSION daemon/*.c client/*.c tests/unit/*.c)): $(BUILD)/version

-include $(DAEMON_OBJS:.o=.d) $(CLIENT_OBJS:.o=.d) $(wildcard $(BUILD)/tests/*/*.d)

# Unit tests: tests/unit/NAME.c with its sources named in tests/unit/NAME.mk as NAME_SRCS := daemon/x.c …
-include $(wildcard tests/unit/*.mk)
UNIT_TESTS := $(patsubst tests/unit/%.mk,%,$(wildcard tests/unit/*.mk))
define UNIT_RULE
$(BUILD)/tests/unit/$(1): $(BUILD)/tests/unit/$(1).o $$($(1)_SRCS:%.c=$(BUILD)/%.o) $(if $(filter-out 0,$($(1)_PROTO)),$(PROTO_C:.c=.o))
	@mkdir -p $$(@D)
	$(CC) $(LDFLAGS) -o $$@ $$^ $(LIBS_TEST)
endef
$(foreach t,$(UNIT_TESTS),$(eval $(call UNIT_RULE,$(t))))
.PHONY: unit
unit: $(UNIT_TESTS:%=$(BUILD)/tests/unit/%)

.SECONDARY:
.PHONY: clean
clean:
	rm -rf $(BUILD)

-include mk/packages.mk mk/workloads.mk mk/cuda_workloads.mk mk/check.mk mk/demo.mk mk/install.mk mk/bench.mk mk/kernels.mk mk/systemd.mk mk/dist.mk
