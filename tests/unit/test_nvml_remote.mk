test_nvml_remote_SRCS := daemon/nvml_remote.c daemon/helper_process.c

# The helper, and the stand-in library that it loads.
$(BUILD)/tests/unit/test_nvml_remote: | $(BUILD)/dist/stakeout-nvml $(BUILD)/workloads/cuda/plain/libnvidia-ml.so.1
