# PYTHON_PROCESS_SRCS: test_python_process.mk, PYTHON_IMAGE_SRCS: test_python_image.mk.
test_python_stacks_SRCS = $(PYTHON_PROCESS_SRCS) $(PYTHON_IMAGE_SRCS) daemon/proc_maps.c
