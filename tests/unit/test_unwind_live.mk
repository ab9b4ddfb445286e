# FILE_REGISTRY_SRCS: test_file_registry.mk.
test_unwind_live_SRCS = tests/golden/tracee.c tests/golden/referee.c tests/golden/cfi_walk.c daemon/process_table.c $(memory_lock_SRCS) daemon/process_scan.c \
	daemon/mapping_runs.c $(FILE_REGISTRY_SRCS)
$(BUILD)/tests/unit/test_unwind_live: | $(addprefix $(BUILD)/tests/golden/targets/,library_calls library_calls-static prologue throw)

GOLDEN_TARGET_CFLAGS := -O2 -fomit-frame-pointer -Wall -Wextra -Werror -D_GNU_SOURCE
$(BUILD)/tests/golden/targets/%: tests/golden/targets/%.c
	@mkdir -p $(@D)
	gcc $(GOLDEN_TARGET_CFLAGS) -Wl,-z,lazy -o $@ $< -lm
$(BUILD)/tests/golden/targets/%-static: tests/golden/targets/%.c
	@mkdir -p $(@D)
	gcc $(GOLDEN_TARGET_CFLAGS) -static -o $@ $< -lm
