// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/http/token.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

struct token {
	size_t n;
	unsigned char bytes[TOKEN_MAX_CHARS];
};

static int check_file(int fd, const char *path, struct so_error *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return so_err(err, -errno, "cannot look at the token file %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return so_err(err, -EINVAL, "the token file %s is not a regular file", path);
	if (st.st_mode & (S_IRWXO | S_IWGRP))
		return so_err(err, -EACCES, "the token file %s is open to other users: chmod 600", path);
	return 0;
}

/* b64token of RFC 6750, section 2.1: '=' at its end only. */
static bool is_token(const char *text, size_t n)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/";
	size_t plain = strspn(text, allowed);

	return plain && plain + strspn(text + plain, "=") == n && n >= TOKEN_MIN_CHARS && n <= TOKEN_MAX_CHARS;
}

int token__read(const char *path, struct token **out, struct so_error *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_(token) struct token *token = NULL;
	char text[TOKEN_MAX_CHARS + 4] = "";
	ssize_t n;
	int ret;

	if (fd < 0)
		return so_err(err, -errno, "cannot open the token file %s: %s", path, strerror(errno));
	ret = check_file(fd, path, err);
	if (ret)
		return ret;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return so_err(err, -errno, "cannot read the token file %s: %s", path, strerror(errno));
	if (n && text[n - 1] == '\n')
		text[--n] = '\0';
	if (!is_token(text, (size_t)n)) {
		explicit_bzero(text, sizeof(text));
		return so_err(err, -EINVAL,
			      "the token file %s must hold one line of %d to %d letters, digits or -._~+/ "
			      "(for example: openssl rand -hex 32)",
			      path, TOKEN_MIN_CHARS, TOKEN_MAX_CHARS);
	}
	token = calloc(1, sizeof(*token));
	if (token) {
		token->n = (size_t)n;
		memcpy(token->bytes, text, (size_t)n);
	}
	explicit_bzero(text, sizeof(text));
	if (!token)
		return so_err(err, -ENOMEM, "out of memory");
	*out = TAKE_PTR(token);
	return 0;
}

/* Every byte of the presented text is compared with some byte of the token, whatever the bytes before it were. */
static bool equal(const struct token *token, const unsigned char *text, size_t n)
{
	volatile unsigned char difference = n != token->n;

	for (size_t i = 0; i < n; i++)
		difference |= text[i] ^ token->bytes[i % token->n];
	return !difference;
}

bool token__matches(const struct token *token, const char *authorization)
{
	static const char scheme[] = "Bearer ";

	if (!authorization || strncasecmp(authorization, scheme, sizeof(scheme) - 1))
		return false;
	authorization += sizeof(scheme) - 1;
	authorization += strspn(authorization, " ");
	return equal(token, (const unsigned char *)authorization, strlen(authorization));
}

void token__free(struct token *token)
{
	if (!token)
		return;
	explicit_bzero(token, sizeof(*token));
	free(token);
}
