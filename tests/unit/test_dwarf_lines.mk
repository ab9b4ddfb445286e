test_dwarf_lines_SRCS := daemon/dwarf_lines.c
