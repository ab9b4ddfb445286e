# PYTHON_PROCESS_SRCS: test_python_process.mk, PYTHON_IMAGE_SRCS: test_python_image.mk.
test_python_golden_SRCS = tests/golden/python/recording.c $(PYTHON_PROCESS_SRCS) daemon/python_layout.c \
	daemon/python_debug_offsets.c daemon/python_code.c daemon/python_lines.c daemon/python_merge.c

# The recordings in tests/golden/python/memory are made anew by: make golden-python (as root, with the CPythons at hand).
GOLDEN_PYTHON := $(BUILD)/tests/golden/python/capture
$(GOLDEN_PYTHON): $(addprefix $(BUILD)/tests/golden/,python/capture.o python/recording.o referee.o cfi_walk.o tracee.o) \
		$(BUILD)/tests/fuzz/libdaemon.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_DAEMON)

.PHONY: golden-python
golden-python: $(GOLDEN_PYTHON)
	tests/golden/python/regenerate $(BUILD)
