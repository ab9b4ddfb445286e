/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon's live page on 127.0.0.1, for one browser of the user who calls. The pages are for whoever asks: they hold
 * no data. Every other request needs the secret in its Authorization header, and is then passed on to the daemon's
 * socket as this user: a GET below /v1/, nothing else. A request for another host, or of another origin, is refused.
 */
#ifndef STAKEOUT_CLIENT_PAGE_SERVER_H
#define STAKEOUT_CLIENT_PAGE_SERVER_H

#include <stdint.h>

#include "client/session/api_client.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct page_server;

/*
 * port 0: a free one. The pages are asked of the daemon once, by `api`, which stays the caller's; each request has a
 * connection to its socket of its own. -EADDRINUSE and others in words; -ENOENT: the daemon has no page.
 */
int page_server__start(struct api_client *api, uint16_t port, struct page_server **out, struct so_error *err);
/* With the secret, behind a '#', so that browsers send it to nobody: the page takes it from there. */
const char *page_server__url(const struct page_server *server);
void page_server__free(struct page_server *server);
CLEANUP_DEFINE(struct page_server *, page_server, page_server__free)

#endif
