test_peer_SRCS := daemon/peer.c
