# SPDX-License-Identifier: GPL-2.0-or-later
# make demo: a recording of a small simulator that runs already. make record PID=…: one of yours.

DEMO_SECONDS   ?= 5
RECORD_SECONDS ?= 10
RECORD_HZ      ?= 99
RECORD_OUT     ?= profile.folded

.PHONY: demo
demo: all $(BUILD)/workloads/cpp_sim
	@scripts/demo $(BUILD) $(DEMO_SECONDS)

.PHONY: record
record: all
	@test -n "$(PID)" || { echo "usage: make record PID=… [RECORD_SECONDS=10] [RECORD_HZ=99] [RECORD_OUT=profile.folded]" >&2; exit 2; }
	$(BUILD)/stakeout record -p $(PID) -d $(RECORD_SECONDS) -r $(RECORD_HZ) -o $(RECORD_OUT)
	@echo "wrote $(RECORD_OUT)"
