test_source_lines_SRCS := daemon/source_lines.c daemon/helper_process.c daemon/log.c

# The reader; and what the test is asked about itself.
$(BUILD)/tests/unit/test_source_lines: | $(BUILD)/stakeoutd
$(BUILD)/tests/unit/test_source_lines.o $(BUILD)/tests/unit/test_dwarf_lines.o: ALL_CFLAGS += -g
