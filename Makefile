# SPDX-License-Identifier: GPL-2.0-or-later
# `make help` lists the goals.

BUILD   ?= build
PREFIX  ?= /usr/local
CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
ifeq ($(origin CXX),default)
CXX     := g++
endif
CLANG   ?= $(firstword $(foreach c,clang clang-14 clang-15 clang-16 clang-17 clang-18 clang-19,$(shell command -v $(c))) clang)
BPFTOOL ?= $(shell PATH=$$PATH:/usr/sbin:/sbin command -v bpftool)
PROTOC_C ?= protoc-c
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo 0.1.0)

# One short line for each file; V=1 shows the commands.
V   ?=
Q   := $(if $(filter-out 0,$(V)),,@)
say = $(if $(Q),@printf '  %-8s %s\n' '$(1)' '$(patsubst $(BUILD)/%,%,$@)')

# SANITIZE=1 builds everything in user space with ASan and UBSan, SANITIZE=thread with TSan.
SANITIZE ?=
SANITIZERS := $(if $(SANITIZE),$(if $(filter thread,$(SANITIZE)),thread,address -fsanitize=undefined))
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter -Werror
CFLAGS  ?= -O2 -g
ALL_CFLAGS := -std=gnu11 $(WARN) $(CFLAGS) -D_GNU_SOURCE -DSTAKEOUT_VERSION='"$(VERSION)"' -I. -Iinclude -I$(BUILD) -I$(BUILD)/gen \
	-fno-omit-frame-pointer
LDFLAGS ?=
ifneq ($(SANITIZE),)
ALL_CFLAGS += -fsanitize=$(SANITIZERS) -fno-sanitize-recover=undefined
LDFLAGS += -fsanitize=$(SANITIZERS)
endif

LIBS_DAEMON := -lbpf -lsqlite3 -lcapstone -ldw -lelf -llzma -lzstd -lz -lmicrohttpd -ljansson -lprotobuf-c -liberty -lre2 -lstdc++ \
	-lpthread -lm
LIBS_CLIENT := -lcurl -lmicrohttpd -ljansson -lprotobuf-c -lz -lre2 -lstdc++ -lpthread -lm

# A room is a folder; .design/rooms.md says which may use which.
PROTO_C     := $(BUILD)/gen/stakeout/profile.pb-c.c
SHARED_SRCS := $(wildcard include/cuda/*.c include/page/*.c include/profile/*.c include/stakeout/*.c)
SHARED_CXX  := $(wildcard include/stakeout/*.cpp)
DAEMON_SRCS := $(wildcard daemon/*.c daemon/*/*.c)
CLIENT_SRCS := $(wildcard client/*.c client/*/*.c)
BPF_SRCS    := $(wildcard bpf/*.bpf.c bpf/*/*.bpf.c)
BPF_HDRS    := $(wildcard bpf/*.h bpf/*/*.h include/stakeout/*.h)
SKELETONS   := $(BPF_SRCS:%.bpf.c=$(BUILD)/%.skel.h)
SHARED_OBJS := $(SHARED_SRCS:%.c=$(BUILD)/%.o) $(SHARED_CXX:%.cpp=$(BUILD)/%.o) $(PROTO_C:.c=.o)
DAEMON_OBJS := $(DAEMON_SRCS:%.c=$(BUILD)/%.o) $(SHARED_OBJS)
CLIENT_OBJS := $(CLIENT_SRCS:%.c=$(BUILD)/%.o) $(SHARED_OBJS)

.PHONY: all
all: $(BUILD)/stakeoutd $(BUILD)/stakeout

.PHONY: help
help:
	@sed -n 's/^#: //p' $(MAKEFILE_LIST)

#: make              builds build/stakeoutd and build/stakeout (V=1: with the commands)
#: make demo         starts a small simulator, attaches to it, shows the profile
#: make record       records a process of yours: PID=… [RECORD_SECONDS=10] [RECORD_HZ=99] [RECORD_OUT=profile.folded]

$(BUILD)/stakeoutd: $(DAEMON_OBJS)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_DAEMON)

$(BUILD)/stakeout: $(CLIENT_OBJS)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_CLIENT)

# Generated: the profile schema's C code, the BPF objects and their skeletons.
$(BUILD)/gen/stakeout/profile.pb-c.c $(BUILD)/gen/stakeout/profile.pb-c.h &: include/stakeout/profile.proto
	@mkdir -p $(BUILD)/gen/stakeout
	$(call say,PROTO)
	$(Q)$(PROTOC_C) --proto_path=include --c_out=$(BUILD)/gen stakeout/profile.proto

$(BPF_SRCS:%.c=$(BUILD)/%.o): $(BUILD)/%.o: %.c $(BPF_HDRS)
	@mkdir -p $(@D)
	$(call say,BPF)
	$(Q)$(CLANG) -target bpf -D__TARGET_ARCH_x86 -O2 -g -Wall -Werror -mcpu=v3 -I. -Iinclude \
		-I/usr/include/$(shell uname -m)-linux-gnu -c $< -o $@

$(SKELETONS): $(BUILD)/%.skel.h: $(BUILD)/%.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name $(notdir $*)_bpf > $@.tmp && mv $@.tmp $@

$(BUILD)/gen/stakeout/%.pb-c.o: $(BUILD)/gen/stakeout/%.pb-c.c
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) -Wno-error -c $< -o $@

# Generated headers must be there before the first compilation; after it the compiler's own lists say who needs them.
$(BUILD)/%.o: %.c | $(BUILD)/gen/stakeout/profile.pb-c.h $(SKELETONS)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# RE2 is C++, and what C calls of it is one file.
$(BUILD)/%.o: %.cpp
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) $(filter-out -std=% -Wstrict-prototypes -Wmissing-prototypes,$(ALL_CFLAGS)) -std=c++17 -MMD -MP -c $< -o $@

# Built in by the assembler, of which the compiler does not tell.
$(BUILD)/daemon/api/api_schema.o: daemon/api/api_schema.json
$(BUILD)/daemon/http/pages.o: daemon/http/live.html
$(BUILD)/include/page/flame_graph_page.o: include/page/flamegraph.html

# The version is compiled in: what holds it is made anew when it changes.
$(BUILD)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' > $@
.PHONY: FORCE
$(patsubst %.c,$(BUILD)/%.o,$(shell grep -ls STAKEOUT_VERSION $(DAEMON_SRCS) $(CLIENT_SRCS) tests/unit/*.c)): $(BUILD)/version

-include $(DAEMON_OBJS:.o=.d) $(CLIENT_OBJS:.o=.d)

# The fuzzers, the unit tests and the benchmarks take from these what they call.
$(BUILD)/libdaemon.a: $(filter-out $(BUILD)/daemon/main.o,$(DAEMON_OBJS))
$(BUILD)/libclient.a: $(filter-out $(BUILD)/client/main.o,$(CLIENT_OBJS))
$(BUILD)/libdaemon.a $(BUILD)/libclient.a:
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

DEMO_SECONDS   ?= 5
RECORD_SECONDS ?= 10
RECORD_HZ      ?= 99
RECORD_OUT     ?= profile.folded

.PHONY: demo
demo: all $(BUILD)/workloads/cpp_sim
	@tests/demo $(BUILD) $(DEMO_SECONDS)

#: make examples     makes the examples of README.md anew, from real output
.PHONY: examples
examples: all workloads
	@tests/examples $(BUILD) --write

.PHONY: record
record: all
	@test -n "$(PID)" || { echo "usage: make record PID=… [RECORD_SECONDS=10] [RECORD_HZ=99] [RECORD_OUT=profile.folded]" >&2; exit 2; }
	$(BUILD)/stakeout record -p $(PID) -d $(RECORD_SECONDS) -r $(RECORD_HZ) -o $(RECORD_OUT)
	@echo "wrote $(RECORD_OUT)"

#: make install      installs below PREFIX (/usr/local), DESTDIR before it; make uninstall removes it again
BINDIR        ?= $(PREFIX)/bin
MANDIR        ?= $(PREFIX)/share/man
UNITDIR       ?= $(PREFIX)/lib/systemd/system
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions

.PHONY: install uninstall
install: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man8 $(DESTDIR)$(UNITDIR) \
		$(DESTDIR)$(COMPLETIONDIR)
	install -m 0755 $(BUILD)/stakeout $(BUILD)/stakeoutd $(DESTDIR)$(BINDIR)
	install -m 0644 $(wildcard client/*.1) $(DESTDIR)$(MANDIR)/man1
	install -m 0644 daemon/stakeoutd.8 $(DESTDIR)$(MANDIR)/man8
	sed 's|@BINDIR@|$(BINDIR)|' daemon/stakeoutd.service > $(BUILD)/stakeoutd.service
	install -m 0644 $(BUILD)/stakeoutd.service $(DESTDIR)$(UNITDIR)
	install -m 0644 client/stakeout.bash $(DESTDIR)$(COMPLETIONDIR)/stakeout

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/stakeout $(DESTDIR)$(BINDIR)/stakeoutd
	rm -f $(addprefix $(DESTDIR)$(MANDIR)/,$(patsubst client/%,man1/%,$(wildcard client/*.1)) man8/stakeoutd.8)
	rm -f $(DESTDIR)$(UNITDIR)/stakeoutd.service $(DESTDIR)$(COMPLETIONDIR)/stakeout

# Debian packages, installed before anything is built; PACKAGES=no leaves the system as it is. make remakes the files that it
# includes before it looks at any goal, and then starts again: so the packages are there before the first compiler runs.
.PHONY: packages packages-check
packages:
	.ci/packages build

packages-check:
ifneq ($(PACKAGES),no)
	.ci/packages check
endif

PACKAGES_NOT_FOR := clean help packages packages-check uninstall
ifneq ($(PACKAGES),no)
ifneq ($(filter-out $(PACKAGES_NOT_FOR),$(or $(MAKECMDGOALS),all)),)
include $(BUILD)/packages.stamp
endif
endif

$(BUILD)/packages.stamp: .ci/packages
	@mkdir -p $(@D)
	@.ci/packages build
	@touch $@

#: make clean        removes the build folder
.PHONY: clean
clean:
	rm -rf $(BUILD)

include tests/workloads/workloads.mk tests/workloads/cuda/cuda_workloads.mk tests/unit/unit.mk tests/check.mk
include tests/bench/bench.mk tests/kernels/kernels.mk tests/systemd/systemd.mk include/static/dist.mk
.SECONDARY:
