# SPDX-License-Identifier: GPL-2.0-or-later

#: make bench        stakeout beside the other profilers that are installed (BENCH="--quick --only cost")

#: make bench-check  counts of instructions of stakeout's own work against tests/bench/counts.json: for CI, on any machine
#:                   (BENCH_CHECK=--save keeps new ones)

BENCH     ?=
BENCH_CHECK ?=
BENCH_DIR := $(BUILD)/bench

#: make memray       memray and the Python it is for, from a newer suite of Debian beside the system, for make bench

.PHONY: memray
memray:
	tests/pythons/fetch $(BENCH_DIR) memray

.PHONY: bench
bench: all workloads $(BENCH_DIR)/depth $(BENCH_DIR)/depth-fp $(BENCH_DIR)/progress $(BENCH_DIR)/mallocs $(BENCH_DIR)/new_pages $(BENCH_DIR)/mappings $(BENCH_DIR)/switches $(BENCH_DIR)/table_time $(BENCH_DIR)/lines $(BENCH_DIR)/store $(BENCH_DIR)/categories
	@STAKEOUT_BUILD=$(BUILD) tests/bench/run.py $(BENCH)

.PHONY: bench-check
bench-check: all $(BENCH_DIR)/categories
	@STAKEOUT_BUILD=$(BUILD) tests/bench/counts.py $(BENCH_CHECK)

$(BENCH_DIR)/depth $(BENCH_DIR)/progress $(BENCH_DIR)/switches: $(BENCH_DIR)/%: tests/bench/%.c tests/workloads/work.h
	@mkdir -p $(@D)
	$(Q)gcc -std=gnu11 $(WORKLOAD_CFLAGS) -I. -o $@ $<

$(BENCH_DIR)/depth-fp: tests/bench/depth.c tests/workloads/work.h
	@mkdir -p $(@D)
	$(Q)gcc -std=gnu11 $(WORKLOAD_CFLAGS) -fno-omit-frame-pointer -I. -o $@ $<

$(BENCH_DIR)/new_pages $(BENCH_DIR)/mappings: $(BENCH_DIR)/%: tests/bench/%.c tests/bench/counted.h
	@mkdir -p $(@D)
	$(Q)gcc -std=gnu11 $(WORKLOAD_CFLAGS) -I. -o $@ $<

$(BENCH_DIR)/mallocs: tests/bench/mallocs.cpp tests/bench/counted.h
	@mkdir -p $(@D)
	$(Q)g++ $(WORKLOAD_CFLAGS) -I. -o $@ $<

$(BENCH_DIR)/table_time: $(BUILD)/tests/bench/table_time.o $(BUILD)/libdaemon.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_DAEMON)

$(BENCH_DIR)/lines: $(BUILD)/tests/bench/lines.o $(UNIT)/fake_sampler.o $(BUILD)/tests/golden/tracee.o $(BUILD)/libdaemon.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_DAEMON)

$(BENCH_DIR)/store: $(BUILD)/tests/bench/store.o $(BUILD)/libdaemon.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_DAEMON)

$(BENCH_DIR)/categories: $(BUILD)/tests/bench/categories.o $(BUILD)/libdaemon.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_DAEMON)
