# SPDX-License-Identifier: GPL-2.0-or-later
# An archive of statically linked programs, for nodes on which nothing is installed. The same sources, packages and
# version give the same bytes.
#
# Objects are made once more, in a build folder of their own: without debug information and with no path of this machine in
# them. What a static program does without, and why it can: include/static/.

#: make dist         an archive of statically linked programs, for nodes on which nothing is installed

DIST_NAME := stakeout-$(VERSION)-$(shell uname -m)
DIST_TAR  := $(BUILD)/dist/$(DIST_NAME).tar.gz
DIST_TREE := $(BUILD)/dist/$(DIST_NAME)
DIST_OBJ  := $(BUILD)/dist/obj
DIST_TIME := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),0)
DIST_PATHS := -ffile-prefix-map=$(CURDIR)/= -ffile-prefix-map=$(DIST_OBJ)/=

.PHONY: dist dist-programs
dist:
	+$(MAKE) --no-print-directory PACKAGES=no SANITIZE= BUILD=$(DIST_OBJ) VERSION='$(VERSION)' LDFLAGS= \
		CLANG='$(CLANG) $(DIST_PATHS) -fdebug-compilation-dir=.' \
		CFLAGS='-O2 -fPIE -ffunction-sections -fdata-sections $(DIST_PATHS)' dist-programs
	include/static/tree $(DIST_OBJ) $(DIST_TREE) $(DIST_TIME)
	tar -C $(BUILD)/dist --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@$(DIST_TIME) \
		-cf - $(DIST_NAME) | gzip -n -9 > $(DIST_TAR).tmp
	mv $(DIST_TAR).tmp $(DIST_TAR)
	@echo "$(DIST_TAR): $$(stat -c %s $(DIST_TAR)) bytes"

# In the build folder of its own.
DIST_BIN := $(addprefix $(BUILD)/dist/,stakeout stakeoutd stakeout-nvml)
dist-programs: $(DIST_BIN)

DIST_COMMON := $(BUILD)/include/static/system.o $(BUILD)/include/static/left_out.o
DIST_LINK   := $(CC) -static-pie -s -Wl,--gc-sections -Wl,--build-id

# The libraries that Debian's curl and libmicrohttpd were built with, beyond what plain HTTP needs.
DIST_LEFT_OUT_stakeoutd := gnutls_.*
DIST_LEFT_OUT_stakeout  := gnutls_.*|(ASN1|BIO|BN|CRYPTO|DES|ENGINE|ERR|EVP|GENERAL|MD5|OCSP|OPENSSL|PEM|PKCS12|RAND|RSA|SSL|UI|X509|X509V3)_.*|TLS_client_method|OpenSSL_version|(d2i|i2d|i2a|i2t)_.*|(RTMP|ldap|ber|gss|idn2|libssh2|nghttp2|psl)_.*|Brotli.*
DIST_LIBS_stakeoutd := $(LIBS_DAEMON)
DIST_LIBS_stakeout  := $(LIBS_CLIENT) -lzstd -lpthread

define DIST_PROGRAM
$(BUILD)/dist/$(1)-left-out.c: $(2) $(DIST_COMMON) include/static/find_left_out include/static/dist.mk
	@mkdir -p $$(@D)
	include/static/find_left_out $$@ '$$(DIST_LEFT_OUT_$(1))' $(DIST_LINK) $(2) $(DIST_COMMON) $$(DIST_LIBS_$(1))

$(BUILD)/dist/$(1)-left-out.o: $(BUILD)/dist/$(1)-left-out.c include/static/left_out.h
	$(CC) $(filter-out -Wmissing-prototypes,$(ALL_CFLAGS)) -c $$< -o $$@

$(BUILD)/dist/$(1): $(BUILD)/dist/$(1)-left-out.o $(2) $(DIST_COMMON)
	$(DIST_LINK) -o $$@ $$^ $$(DIST_LIBS_$(1)) 2>$$@.log || { cat $$@.log >&2; exit 1; }
endef
$(eval $(call DIST_PROGRAM,stakeoutd,$(DAEMON_OBJS)))
$(eval $(call DIST_PROGRAM,stakeout,$(CLIENT_OBJS)))

# Dynamic, and for any glibc: daemon/nvml/helper/old_glibc.h.
$(BUILD)/dist/stakeout-nvml: daemon/nvml/helper/main.c daemon/nvml/helper/start.c daemon/nvml/nvml_library.c $(wildcard daemon/nvml/*.h daemon/nvml/helper/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(WARN) -O2 $(DIST_PATHS) -D_GNU_SOURCE -I. -Iinclude -fno-stack-protector -U_FORTIFY_SOURCE \
		-include daemon/nvml/helper/old_glibc.h -s -nostartfiles -o $@ $(filter %.c,$^) -Wl,--no-as-needed -l:libdl.so.2
