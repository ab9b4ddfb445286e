test_probe_site_SRCS := daemon/probe_site.c
