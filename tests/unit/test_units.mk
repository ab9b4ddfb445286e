test_units_SRCS := daemon/units.c
