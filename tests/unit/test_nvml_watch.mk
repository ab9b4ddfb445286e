test_nvml_watch_SRCS := daemon/nvml_watch.c daemon/nvml.c daemon/nvml_library.c daemon/nvml_remote.c daemon/helper_process.c

# The stand-in for NVIDIA's library within this program (test_nvml.mk), and the helper with the one that it loads.
$(BUILD)/tests/unit/test_nvml_watch: | $(addprefix $(BUILD)/tests/unit/nvml_,fake.so hangs.so hangs_later.so) $(BUILD)/dist/stakeout-nvml \
	$(BUILD)/workloads/cuda/plain/libnvidia-ml.so.1

# The second of two GPUs hangs when it is asked for: at once, and only after it was refused.
$(BUILD)/tests/unit/nvml_hangs.so: NVML_FAKE_FLAGS := -DFAKE_HANGS=0
$(BUILD)/tests/unit/nvml_hangs_later.so: NVML_FAKE_FLAGS := -DFAKE_HANGS=1
$(addprefix $(BUILD)/tests/unit/nvml_,hangs.so hangs_later.so): tests/unit/nvml_fake.c tests/unit/nvml_fake.h
	@mkdir -p $(@D)
	gcc -std=gnu11 $(WARN) -O2 -g -D_GNU_SOURCE -I. $(NVML_FAKE_FLAGS) -fPIC -shared -o $@ $<
