# SPDX-License-Identifier: GPL-2.0-or-later
# make install [PREFIX=/usr/local] [DESTDIR=…], make uninstall.

BINDIR ?= $(PREFIX)/bin

.PHONY: install uninstall
install: all
	install -d $(DESTDIR)$(BINDIR)
	install -m 0755 $(BUILD)/stakeout $(BUILD)/stakeoutd $(DESTDIR)$(BINDIR)

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/stakeout $(DESTDIR)$(BINDIR)/stakeoutd
