test_stack_insn_SRCS := daemon/stack_insn.c daemon/x86_decoder.c
