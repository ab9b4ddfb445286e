test_client_output_SRCS := client/output.c client/interrupt.c
