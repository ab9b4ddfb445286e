# SPDX-License-Identifier: GPL-2.0-or-later
# A unit test is tests/unit/test_NAME.c. It takes from the libraries what it calls, unless it or one of the objects named here
# defines that already.

UNIT_TESTS := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c))
UNIT := $(BUILD)/tests/unit

# What a test puts in the place of the real thing, or shares with others.
FAKE_ENGINE  := $(UNIT)/fake_engine.o
FAKE_SAMPLER := $(UNIT)/fake_sampler.o
HTTP_PROBE   := $(UNIT)/http_probe.o
API_FIXTURE  := $(UNIT)/api_fixture.o

test_api_WITH            := $(FAKE_ENGINE) $(HTTP_PROBE) $(API_FIXTURE)
test_api_pull_WITH       := $(FAKE_ENGINE) $(HTTP_PROBE) $(API_FIXTURE)
test_api_client_WITH     := $(FAKE_ENGINE) $(HTTP_PROBE)
test_api_schema_WITH     := $(FAKE_ENGINE)
test_category_counters_WITH := $(FAKE_ENGINE)
test_dump_command_WITH   := $(FAKE_ENGINE) $(HTTP_PROBE)
test_file_registry_WITH  := $(FAKE_SAMPLER)
test_file_registry_life_WITH := $(FAKE_SAMPLER)
test_frame_cache_WITH    := $(FAKE_SAMPLER)
test_golden_WITH         := $(FAKE_SAMPLER) $(BUILD)/tests/golden/snapshot.o
test_heartbeat_WITH      := $(HTTP_PROBE)
test_history_WITH        := $(FAKE_ENGINE)
test_http_server_WITH    := $(HTTP_PROBE)
test_http_token_WITH     := $(HTTP_PROBE)
test_learned_code_WITH   := $(FAKE_SAMPLER)
test_match_scan_WITH     := $(FAKE_ENGINE)
test_past_mappings_WITH  := $(FAKE_SAMPLER)
test_process_table_WITH  := $(FAKE_SAMPLER)
test_profile_export_WITH := $(FAKE_SAMPLER)
test_python_golden_WITH  := $(BUILD)/tests/golden/python/recording.o
test_table_pool_WITH     := $(FAKE_SAMPLER)
test_unwind_WITH         := $(FAKE_SAMPLER)
test_unwind_bounds_WITH  := $(FAKE_SAMPLER)
test_unwind_live_WITH    := $(FAKE_SAMPLER) $(addprefix $(BUILD)/tests/golden/,cfi_walk.o referee.o tracee.o)

define UNIT_RULE
$(UNIT)/$(1): $(UNIT)/$(1).o $$($(1)_WITH) $(BUILD)/libdaemon.a $(BUILD)/libclient.a
	$$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $$@ $$^ -lcmocka $(LIBS_DAEMON) -lcurl
endef
$(foreach t,$(UNIT_TESTS),$(eval $(call UNIT_RULE,$(t))))

.PHONY: unit
unit: $(UNIT_TESTS:%=$(UNIT)/%)

-include $(wildcard $(BUILD)/tests/*/*.d)

# What is to be there when a test runs.
$(UNIT)/test_profile_export $(UNIT)/test_source_lines: | $(BUILD)/stakeoutd
$(UNIT)/test_profile_export.o $(UNIT)/test_source_lines.o $(UNIT)/test_dwarf_lines.o: ALL_CFLAGS += -g
$(UNIT)/test_dist_system: | $(UNIT)/dist_system_static
$(UNIT)/test_cuda_standin: | $(CUDA_STANDINS) $(CUDA_DIR)/cuda_calls $(CUDA_DIR)/cuda_each
$(UNIT)/test_nvml: | $(addprefix $(UNIT)/nvml_,fake.so old.so bare.so other.so broken.so static)
$(UNIT)/test_nvml_remote $(UNIT)/test_nvml_watch: | $(BUILD)/dist/stakeout-nvml $(CUDA_DIR)/plain/libnvidia-ml.so.1
$(UNIT)/test_nvml_watch: | $(addprefix $(UNIT)/nvml_,fake.so hangs.so hangs_later.so)
$(UNIT)/test_go_rules: | $(filter $(WORKLOAD_DIR)/go_sim-stripped,$(WORKLOADS))
$(UNIT)/test_torch_library: | $(addprefix $(WORKLOAD_DIR)/,torch/libc10.so torch_old/libc10.so)
$(UNIT)/test_alloc_library: | $(WORKLOAD_DIR)/alloc_count-static
$(UNIT)/test_unwind_live: | $(addprefix $(BUILD)/tests/golden/targets/,library_calls library_calls-static prologue throw)

$(UNIT)/dist_system_static: tests/unit/dist_system_static.c include/static/system.c
	@mkdir -p $(@D)
	$(Q)gcc -std=gnu11 $(WARN) -O2 -g -D_GNU_SOURCE -Iinclude -static -o $@ $^

# Stand-ins for NVIDIA's library: with everything, as of an old driver, with the least that serves, with a second GPU that hangs
# at once or only after it was refused; something else; no library at all; and a program that is linked statically.
$(UNIT)/nvml_fake.so: NVML_FAKE_FLAGS :=
$(UNIT)/nvml_old.so: NVML_FAKE_FLAGS := -DFAKE_OLD
$(UNIT)/nvml_bare.so: NVML_FAKE_FLAGS := -DFAKE_BARE
$(UNIT)/nvml_hangs.so: NVML_FAKE_FLAGS := -DFAKE_HANGS=0
$(UNIT)/nvml_hangs_later.so: NVML_FAKE_FLAGS := -DFAKE_HANGS=1
$(addprefix $(UNIT)/nvml_,fake.so old.so bare.so hangs.so hangs_later.so): tests/unit/nvml_fake.c tests/unit/nvml_fake.h
	@mkdir -p $(@D)
	$(Q)gcc -std=gnu11 $(WARN) -O2 -g -D_GNU_SOURCE -I. $(NVML_FAKE_FLAGS) -fPIC -shared -o $@ $<

$(UNIT)/nvml_other.so: tests/workloads/tiny.c
	@mkdir -p $(@D)
	$(Q)gcc -O2 -fPIC -shared -o $@ $<

$(UNIT)/nvml_broken.so: tests/unit/unit.mk
	@mkdir -p $(@D)
	@echo "no ELF file" > $@

$(UNIT)/nvml_static: tests/unit/nvml_static.c daemon/nvml/nvml_library.c daemon/nvml/nvml_library.h
	@mkdir -p $(@D)
	$(Q)gcc -std=gnu11 -O2 -g -D_GNU_SOURCE -I. -Iinclude -static -o $@ $(filter %.c,$^)

# Golden stacks and Pythons are made anew by these two goals: as root on Debian 12, the second with the CPythons at hand.
GOLDEN := $(BUILD)/tests/golden
GOLDEN_TARGETS := $(addprefix $(GOLDEN)/targets/,throw prologue library_calls library_calls-static)
GOLDEN_TARGET_CFLAGS := -O2 -fomit-frame-pointer -Wall -Wextra -Werror -D_GNU_SOURCE

.PHONY: golden-stacks golden-python
golden-stacks: $(GOLDEN)/capture $(GOLDEN_TARGETS) workloads
	tests/golden/regenerate $(BUILD)
golden-python: $(GOLDEN)/python/capture
	tests/golden/python/regenerate $(BUILD)

$(GOLDEN)/capture: $(addprefix $(GOLDEN)/,capture.o tracee.o referee.o cfi_walk.o) $(BUILD)/libdaemon.a
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_DAEMON)
$(GOLDEN)/python/capture: $(addprefix $(GOLDEN)/,python/capture.o python/recording.o referee.o cfi_walk.o tracee.o) $(BUILD)/libdaemon.a
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_DAEMON)
$(GOLDEN)/targets/throw: tests/golden/targets/throw.cpp
	@mkdir -p $(@D)
	$(Q)g++ $(GOLDEN_TARGET_CFLAGS) -o $@ $<
$(GOLDEN)/targets/%-static: tests/golden/targets/%.c
	@mkdir -p $(@D)
	$(Q)gcc $(GOLDEN_TARGET_CFLAGS) -static -o $@ $< -lm
$(GOLDEN)/targets/%: tests/golden/targets/%.c
	@mkdir -p $(@D)
	$(Q)gcc $(GOLDEN_TARGET_CFLAGS) -Wl,-z,lazy -o $@ $< -lm
