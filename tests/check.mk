# SPDX-License-Identifier: GPL-2.0-or-later
# FILTER=PATTERN runs the tests whose names hold it, RUN_OPTIONS passes options to tests/run. Both build with all CPUs,
# unless the caller says how many.

#: make check        builds everything and runs the tests, some minutes (FILTER=PATTERN: those whose names hold it)
#: make check-long   all tests: also machines under qemu, statistics, sanitizers, fuzzers (FUZZ_SECONDS=60 each), two
#:                   hours of mixed load (LOAD_SECONDS=7200)

FUZZ_NAMES   := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_TESTS   := $(FUZZ_NAMES:%=$(BUILD)/tests/fuzz/%)
FUZZ_SECONDS ?= 60
LOAD_SECONDS ?= 7200
FILTER       ?=
RUN_OPTIONS  ?=

# FUZZER=1 with clang makes fuzzers; without it they are programs that replay their inputs. tests/fuzz/corpus/X belongs
# to fuzz_X.
FUZZER       ?=
FUZZ_MAIN    := $(if $(FUZZER),,$(BUILD)/tests/fuzz/replay_main.o)
ifneq ($(FUZZER),)
ALL_CFLAGS   += -fsanitize=fuzzer-no-link
endif
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(FUZZ_MAIN) $(BUILD)/libdaemon.a $(BUILD)/libclient.a
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) $(if $(FUZZER),-fsanitize=fuzzer) -o $@ $^ $(LIBS_DAEMON) -lcurl

.PHONY: fuzz-replay
fuzz-replay: $(FUZZ_TESTS)

# CPythons that neither the system's suites nor, often, pyenv have. Without a network their tests are skipped.
PYTHONS := $(BUILD)/pythons

.PHONY: pythons
pythons:
	-tests/pythons/fetch $(PYTHONS) 3.14
	-tests/pythons/fetch $(PYTHONS) 3.15

# Those that no suite has are built from its sources, once, some minutes each: for the long run alone.
.PHONY: pythons-built
pythons-built:
	-tests/pythons/build $(PYTHONS) 3.13t
	-tests/pythons/build $(PYTHONS) 3.14t
	-tests/pythons/build $(PYTHONS) 3.15t
	-tests/pythons/build $(PYTHONS) 3.13-clang
	-tests/pythons/build $(PYTHONS) 3.14-tail
	-tests/pythons/build $(PYTHONS) 3.13-bolt

ALL_CPUS  = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))
RUN_TESTS = MAKEFLAGS= STAKEOUT_BUILD=$(BUILD) STAKEOUT_SANITIZE=$(SANITIZE) STAKEOUT_LOAD_SECONDS=$(LOAD_SECONDS) \
	STAKEOUT_PYTHONS=$$(echo $(abspath $(PYTHONS))/*/python3 | tr ' ' :) \
	tests/run $(if $(FILTER),--filter '$(FILTER)') $(RUN_OPTIONS)

# The packages come first, in a make of their own: what they bring decides what can be built.
.PHONY: check check-long check-build
check: packages-check
	+$(MAKE) $(ALL_CPUS) check-build
	$(RUN_TESTS)

check-long: packages-check
	+$(MAKE) $(ALL_CPUS) check-build
	$(MAKE) pythons-built
	+$(MAKE) $(ALL_CPUS) BUILD=$(BUILD)/sanitized SANITIZE=1 all unit workloads
	+$(MAKE) $(ALL_CPUS) BUILD=$(BUILD)/fuzzers SANITIZE=1 FUZZER=1 CC='$(CLANG)' CXX='$(subst clang,clang++,$(CLANG))' CFLAGS='-O1 -g' WARN= fuzz-replay
	$(RUN_TESTS) --long --sanitized $(BUILD)/sanitized --fuzzers $(BUILD)/fuzzers --fuzz-seconds $(FUZZ_SECONDS)

check-build: all unit fuzz-replay workloads pythons $(if $(SANITIZE),,dist)
	tests/layers
	tests/file_circles $(BUILD)
