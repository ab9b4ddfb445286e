test_stack_effect_SRCS := daemon/stack_effect.c daemon/stack_rule.c daemon/stack_state.c daemon/stack_code.c daemon/stack_insn.c daemon/x86_decoder.c
