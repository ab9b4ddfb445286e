# SPDX-License-Identifier: GPL-2.0-or-later
# make check: builds everything and runs all tests. FILTER=PATTERN runs the tests whose names hold it.

FUZZ_NAMES  := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_TESTS  := $(FUZZ_NAMES:%=$(BUILD)/tests/fuzz/%)
FILTER      ?=
RUN_OPTIONS ?=

# Replays its inputs; tests/fuzz/corpus/X belongs to fuzz_X.
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay_main.o \
		$(BUILD)/libdaemon.a $(BUILD)/libclient.a
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_DAEMON) -lcurl

.PHONY: fuzz-replay
fuzz-replay: $(FUZZ_TESTS)

# The packages come first, in a make of their own: what they bring decides what can be built.
.PHONY: check check-run
check: packages-check
	+$(MAKE) check-run

# CPythons that neither the system's suites nor, often, pyenv have. Without a network their tests are skipped.
PYTHONS := $(BUILD)/pythons

.PHONY: pythons
pythons:
	-tests/pythons/fetch $(PYTHONS) 3.14

check-run: all unit fuzz-replay workloads pythons
	tests/layers
	STAKEOUT_BUILD=$(BUILD) STAKEOUT_SANITIZE=$(SANITIZE) \
		STAKEOUT_PYTHONS=$$(echo $(abspath $(PYTHONS))/*/python3 | tr ' ' :) \
		tests/run $(if $(FILTER),--filter '$(FILTER)') $(RUN_OPTIONS)
