test_demangle_SRCS := daemon/demangle.c
