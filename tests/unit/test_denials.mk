# What daemon/http_server.c needs as well.
http_SRCS := daemon/denials.c daemon/limits.c daemon/peer.c
test_denials_SRCS := daemon/log.c $(http_SRCS)
