# All but the probes, the gate and the clocks, which the test has.
test_cuda_watch_SRCS := daemon/cuda_active.c daemon/cuda_in_progress.c daemon/cuda_watch.c daemon/cuda_watch_active.c daemon/cuda_watch_costs.c daemon/cuda_watch_light.c daemon/cuda_watch_loss.c daemon/cuda_watch_phases.c \
	daemon/cuda_watch_settle.c daemon/cuda_budget.c daemon/cuda_estimate.c daemon/cuda_kinds.c daemon/cuda_lines.c \
	daemon/cuda_names.c daemon/cuda_pace.c daemon/cuda_probe_cost.c daemon/cuda_progress.c daemon/cuda_snapshot.c daemon/cuda_snapshot_subtract.c
