test_probe_site_SRCS := daemon/probe_site.c daemon/x86_decoder.c
