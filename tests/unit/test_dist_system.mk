test_dist_system_SRCS :=

$(BUILD)/tests/unit/test_dist_system: | $(BUILD)/tests/unit/dist_system_static
$(BUILD)/tests/unit/dist_system_static: tests/unit/dist_system_static.c dist/system.c
	@mkdir -p $(@D)
	gcc -std=gnu11 $(WARN) -O2 -g -D_GNU_SOURCE -Iinclude -static -o $@ $^
