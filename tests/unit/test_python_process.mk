# PYTHON_IMAGE_SRCS: test_python_image.mk.
PYTHON_PROCESS_SRCS := daemon/python_process.c daemon/python_storage.c
test_python_process_SRCS = $(PYTHON_PROCESS_SRCS) $(PYTHON_IMAGE_SRCS) daemon/proc_maps.c
