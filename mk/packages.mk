# SPDX-License-Identifier: GPL-2.0-or-later
# Debian packages, installed before anything is built. PACKAGES=no leaves the system as it is.
#
# make remakes the files it includes before it looks at any goal, and then starts again: so the packages are there
# before the first compiler runs, whatever the goal.

.PHONY: packages packages-check
packages:
	scripts/packages build

packages-check:
ifneq ($(PACKAGES),no)
	scripts/packages check
endif

PACKAGES_NOT_FOR := clean packages packages-check uninstall
ifneq ($(PACKAGES),no)
ifneq ($(filter-out $(PACKAGES_NOT_FOR),$(or $(MAKECMDGOALS),all)),)
include $(BUILD)/packages.stamp
endif
endif

$(BUILD)/packages.stamp: scripts/packages
	@mkdir -p $(@D)
	@scripts/packages build
	@touch $@
