/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What curl and libmicrohttpd call of the libraries left out, whatever they are used for: success, and no more. */
#include "static/left_out.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return;
}

void left_out(const char *name)
{
	say("stakeout: ");
	say(name);
	say(" was called, which this static program was built without\n");
	abort();
}

/* GnuTLS: MHD_init() and MHD_fini() */
int gnutls_global_init(void);
int gnutls_global_init(void)
{
	return 0; /* GNUTLS_E_SUCCESS */
}

void gnutls_global_deinit(void);
void gnutls_global_deinit(void)
{
}

/* OpenSSL: Curl_ossl_init() */
int OPENSSL_init_ssl(unsigned long options, const void *settings);
int OPENSSL_init_ssl(unsigned long options, const void *settings)
{
	return 1;
}

/* libssh2: Curl_ssh_init() and Curl_ssh_cleanup() */
int libssh2_init(int flags);
int libssh2_init(int flags)
{
	return 0;
}

void libssh2_exit(void);
void libssh2_exit(void)
{
}

/* Variables among the functions. */
extern void *(*gnutls_malloc)(size_t);
void *(*gnutls_malloc)(size_t) = malloc;
extern void *GSS_C_NT_HOSTBASED_SERVICE;
void *GSS_C_NT_HOSTBASED_SERVICE;
