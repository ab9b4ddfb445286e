# FILE_REGISTRY_SRCS: test_file_registry.mk. The profile builder is the test's own.
test_profile_export_SRCS = daemon/profile_export.c daemon/accumulator.c daemon/python_functions.c daemon/demangle.c daemon/perf_map.c \
	daemon/kallsyms.c daemon/kernel_modules.c daemon/module_places.c daemon/kernel_symbols.c daemon/python_merge.c daemon/process_labels.c daemon/proc_file.c $(FILE_REGISTRY_SRCS)

# Whose source lines are asked for, and who reads them.
$(BUILD)/tests/unit/test_profile_export.o: ALL_CFLAGS += -g
$(BUILD)/tests/unit/test_profile_export: | $(BUILD)/stakeoutd
