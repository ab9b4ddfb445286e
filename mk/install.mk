# SPDX-License-Identifier: GPL-2.0-or-later
# make install [PREFIX=/usr/local] [DESTDIR=…], make uninstall.

BINDIR        ?= $(PREFIX)/bin
MANDIR        ?= $(PREFIX)/share/man
UNITDIR       ?= $(PREFIX)/lib/systemd/system
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions

.PHONY: install uninstall
install: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man8 $(DESTDIR)$(UNITDIR) \
		$(DESTDIR)$(COMPLETIONDIR)
	install -m 0755 $(BUILD)/stakeout $(BUILD)/stakeoutd $(DESTDIR)$(BINDIR)
	install -m 0644 man/stakeout.1 $(DESTDIR)$(MANDIR)/man1
	install -m 0644 man/stakeoutd.8 $(DESTDIR)$(MANDIR)/man8
	sed 's|@BINDIR@|$(BINDIR)|' share/stakeoutd.service > $(BUILD)/stakeoutd.service
	install -m 0644 $(BUILD)/stakeoutd.service $(DESTDIR)$(UNITDIR)
	install -m 0644 share/completion/stakeout.bash $(DESTDIR)$(COMPLETIONDIR)/stakeout

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/stakeout $(DESTDIR)$(BINDIR)/stakeoutd
	rm -f $(DESTDIR)$(MANDIR)/man1/stakeout.1 $(DESTDIR)$(MANDIR)/man8/stakeoutd.8
	rm -f $(DESTDIR)$(UNITDIR)/stakeoutd.service $(DESTDIR)$(COMPLETIONDIR)/stakeout
