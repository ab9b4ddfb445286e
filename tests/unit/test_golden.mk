test_golden_SRCS := tests/golden/snapshot.c daemon/table_pool.c daemon/pool_space.c daemon/unwind_table.c daemon/cfi_entries.c \
	daemon/cfi_program.c daemon/cfi_rules.c daemon/eh_frame.c tests/unit/fake_sampler.c

# The stacks in tests/golden/stacks are made anew by: make golden-stacks (as root, on Debian 12).
GOLDEN_CAPTURE := $(BUILD)/tests/golden/capture
GOLDEN_TARGETS := $(addprefix $(BUILD)/tests/golden/targets/,throw prologue library_calls library_calls-static)
$(GOLDEN_CAPTURE): $(addprefix $(BUILD)/tests/golden/,capture.o tracee.o referee.o cfi_walk.o) $(BUILD)/daemon/proc_maps.o
	$(CC) $(LDFLAGS) -o $@ $^ -ldw -lelf

$(BUILD)/tests/golden/targets/throw: tests/golden/targets/throw.cpp
	@mkdir -p $(@D)
	g++ $(GOLDEN_TARGET_CFLAGS) -o $@ $<

.PHONY: golden-stacks
golden-stacks: $(GOLDEN_CAPTURE) $(GOLDEN_TARGETS) workloads
	tests/golden/regenerate $(BUILD)
