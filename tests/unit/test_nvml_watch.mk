test_nvml_watch_SRCS := daemon/nvml_watch.c daemon/nvml.c daemon/nvml_library.c daemon/nvml_remote.c

# The stand-in for NVIDIA's library within this program (test_nvml.mk), and the helper with the one that it loads.
$(BUILD)/tests/unit/test_nvml_watch: | $(BUILD)/tests/unit/nvml_fake.so $(BUILD)/dist/stakeout-nvml \
	$(BUILD)/workloads/cuda/plain/libnvidia-ml.so.1
