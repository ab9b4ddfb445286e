test_nvml_SRCS := daemon/nvml.c daemon/nvml_library.c daemon/nvml_remote.c daemon/helper_process.c

# Stand-ins for NVIDIA's library: with everything, as of an old driver, with the least that serves, and something else;
# and a program that is linked statically.
NVML_FAKES := $(addprefix $(BUILD)/tests/unit/nvml_,fake.so old.so bare.so other.so broken.so)
$(BUILD)/tests/unit/test_nvml: | $(NVML_FAKES) $(BUILD)/tests/unit/nvml_static

$(BUILD)/tests/unit/nvml_fake.so: NVML_FAKE_FLAGS :=
$(BUILD)/tests/unit/nvml_old.so: NVML_FAKE_FLAGS := -DFAKE_OLD
$(BUILD)/tests/unit/nvml_bare.so: NVML_FAKE_FLAGS := -DFAKE_BARE
$(addprefix $(BUILD)/tests/unit/nvml_,fake.so old.so bare.so): tests/unit/nvml_fake.c tests/unit/nvml_fake.h
	@mkdir -p $(@D)
	gcc -std=gnu11 $(WARN) -O2 -g -D_GNU_SOURCE -I. $(NVML_FAKE_FLAGS) -fPIC -shared -o $@ $<

$(BUILD)/tests/unit/nvml_other.so: tests/workloads/tiny.c
	@mkdir -p $(@D)
	gcc -O2 -fPIC -shared -o $@ $<

$(BUILD)/tests/unit/nvml_broken.so: tests/unit/test_nvml.mk
	@mkdir -p $(@D)
	echo "no ELF file" > $@

$(BUILD)/tests/unit/nvml_static: tests/unit/nvml_static.c daemon/nvml_library.c daemon/nvml_library.h
	@mkdir -p $(@D)
	gcc -std=gnu11 -O2 -g -D_GNU_SOURCE -I. -Iinclude -static -o $@ $(filter %.c,$^)
