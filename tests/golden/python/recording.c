// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/golden/python/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <zstd.h>

#include "stakeout/array.h"

#define MAX_BYTES   (64u << 20) /* of memory */
#define HEAD_BYTES  12u         /* of a piece: address and length */
#define BEST_PACKED 19          /* zstd's level */

int recording__add_frame(struct recording_thread *t, const struct recording_frame *frame)
{
	if (ARRAY_RESERVE(t->frames, t->cap_frames, t->n_frames + 1))
		return -ENOMEM;
	t->frames[t->n_frames++] = *frame;
	return 0;
}

/* Memory. */

int recording__add_memory(struct recording *r, uint64_t address, const void *bytes, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	if (!copy || ARRAY_RESERVE(r->pieces, r->cap_pieces, r->n_pieces + 1)) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, bytes, n);
	r->pieces[r->n_pieces++] = (struct recording_piece){ .address = address, .bytes = copy, .n = n };
	return 0;
}

static int compare_pieces(const void *a, const void *b)
{
	const struct recording_piece *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* `next` begins in `to` or right behind it, and is taken into it. */
static int take_in(struct recording_piece *to, struct recording_piece *next)
{
	size_t at = next->address - to->address;
	size_t common = to->n - at < next->n ? to->n - at : next->n;
	uint8_t *grown;

	if (memcmp(to->bytes + at, next->bytes, common) != 0)
		return -EBADMSG;
	grown = realloc(to->bytes, at + next->n > to->n ? at + next->n : to->n);
	if (!grown)
		return -ENOMEM;
	to->bytes = grown;
	memcpy(grown + at + common, next->bytes + common, next->n - common);
	if (at + next->n > to->n)
		to->n = at + next->n;
	free(next->bytes);
	next->bytes = NULL;
	return 0;
}

int recording__join(struct recording *r)
{
	size_t n = 0, i;
	int ret = 0;

	qsort(r->pieces, r->n_pieces, sizeof(r->pieces[0]), compare_pieces);
	for (i = 0; i < r->n_pieces; i++) {
		struct recording_piece *last = n ? &r->pieces[n - 1] : NULL;

		if (!last || r->pieces[i].address > last->address + last->n) {
			r->pieces[n++] = r->pieces[i];
			continue;
		}
		ret = take_in(last, &r->pieces[i]);
		if (ret)
			break;
	}
	for (; i < r->n_pieces; i++)
		r->pieces[n++] = r->pieces[i];
	r->n_pieces = n;
	return ret;
}

/* The piece with that address. */
static const struct recording_piece *find_piece(const struct recording *r, uint64_t address)
{
	size_t low = 0, high = r->n_pieces;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct recording_piece *piece = &r->pieces[mid];

		if (address < piece->address)
			high = mid;
		else if (address - piece->address >= piece->n)
			low = mid + 1;
		else
			return piece;
	}
	return NULL;
}

static bool read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct recording_piece *piece = find_piece(context, address);

	if (!piece || piece->n - (address - piece->address) < bytes)
		return false;
	memcpy(to, piece->bytes + (address - piece->address), bytes);
	return true;
}

struct foreign_memory recording__memory(const struct recording *r)
{
	return (struct foreign_memory){ read_memory, (void *)r };
}

uint8_t *recording__byte(const struct recording *r, uint64_t address)
{
	const struct recording_piece *piece = find_piece(r, address);

	return piece ? piece->bytes + (address - piece->address) : NULL;
}

void recording__release(struct recording *r)
{
	for (size_t i = 0; i < r->n_pieces; i++)
		free(r->pieces[i].bytes);
	for (size_t i = 0; i < r->n_threads; i++)
		free(r->threads[i].frames);
	free(r->pieces);
	*r = (struct recording){ 0 };
}

/* Writing. */

static uint8_t *flatten(const struct recording *r, size_t *bytes)
{
	uint8_t *flat, *at;

	*bytes = 0;
	for (size_t i = 0; i < r->n_pieces; i++)
		*bytes += HEAD_BYTES + r->pieces[i].n;
	at = flat = malloc(*bytes ? *bytes : 1);
	for (size_t i = 0; flat && i < r->n_pieces; i++) {
		const struct recording_piece *piece = &r->pieces[i];
		uint32_t n = (uint32_t)piece->n;

		memcpy(at, &piece->address, sizeof(piece->address));
		memcpy(at + sizeof(piece->address), &n, sizeof(n));
		memcpy(at + HEAD_BYTES, piece->bytes, n);
		at += HEAD_BYTES + n;
	}
	return flat;
}

static int write_memory(const struct recording *r, FILE *out)
{
	size_t bytes, packed, room;
	_cleanup_free_ uint8_t *flat = flatten(r, &bytes);
	_cleanup_free_ uint8_t *frame = malloc(room = ZSTD_compressBound(bytes));

	if (!flat || !frame)
		return -ENOMEM;
	packed = ZSTD_compress(frame, room, flat, bytes, BEST_PACKED);
	if (ZSTD_isError(packed))
		return -EIO;
	fprintf(out, "memory %zu %zu\n", packed, bytes);
	fwrite(frame, 1, packed, out);
	return 0;
}

static void write_frame(const struct recording_frame *f, FILE *out)
{
	if (f->kind != RECORDING_PYTHON) {
		fprintf(out, "%s %s\n", f->kind == RECORDING_LOOP ? "loop" : "native", f->name);
		return;
	}
	fprintf(out, "python %s\t%s\t%d\t", f->name, f->file, f->line);
	if (f->offset == RECORDING_NO_OFFSET)
		fputc('-', out);
	else
		fprintf(out, "%d", f->offset);
	fprintf(out, "\t%s\n", f->entry ? "entry" : "inner");
}

int recording__write(const struct recording *r, const char *path)
{
	_cleanup_fclose_ FILE *out = fopen(path, "w");
	int ret;

	if (!out)
		return -errno;
	fprintf(out, "stakeout-python 1\ninterpreter %" PRIx64 " %" PRIx32, r->runtime, r->version);
	if (r->own)
		fprintf(out, " %" PRId32, r->own);
	fputc('\n', out);
	for (size_t i = 0; i < r->n_threads; i++) {
		const struct recording_thread *t = &r->threads[i];

		fprintf(out, "thread %" PRIx64 " %" PRIu64 " %s\n", t->descriptor, t->native_id,
			t->held ? "held" : "released");
		for (size_t k = 0; k < t->n_frames; k++)
			write_frame(&t->frames[k], out);
	}
	ret = write_memory(r, out);
	return ret ? ret : fflush(out) || ferror(out) ? -EIO : 0;
}

/* Reading. */

struct reader {
	struct recording *r;
	FILE *in;
	struct so_error *err;
	unsigned line;
};

static int bad(const struct reader *reader, const char *what)
{
	return so_err(reader->err, -EBADMSG, "line %u: %s", reader->line, what);
}

static int read_thread(struct reader *reader, const char *text)
{
	struct recording_thread thread = { 0 };
	char lock[16];

	if (reader->r->n_threads == RECORDING_MAX_THREADS ||
	    sscanf(text, "%" SCNx64 " %" SCNu64 " %15s", &thread.descriptor, &thread.native_id, lock) != 3)
		return bad(reader, "not a thread, or one too many");
	thread.held = !strcmp(lock, "held");
	reader->r->threads[reader->r->n_threads++] = thread;
	return 0;
}

/* Names are at most 127 bytes long: RECORDING_NAME_BYTES. */
static int read_frame(struct reader *reader, enum recording_kind kind, const char *text)
{
	struct recording *r = reader->r;
	struct recording_frame f = { .kind = kind };
	char offset[16] = "-", mark[8] = "";

	if (!r->n_threads)
		return bad(reader, "a frame of no thread");
	if (kind == RECORDING_PYTHON) {
		if (sscanf(text, "%127[^\t]\t%127[^\t]\t%d\t%15[^\t]\t%7s", f.name, f.file, &f.line, offset, mark) != 5)
			return bad(reader, "not a Python frame");
	} else if (sscanf(text, "%127s", f.name) != 1) {
		return bad(reader, "not a native frame");
	}
	f.offset = offset[0] == '-' ? RECORDING_NO_OFFSET : atoi(offset);
	f.entry = !strcmp(mark, "entry");
	return recording__add_frame(&r->threads[r->n_threads - 1], &f);
}

static int split_memory(struct reader *reader, const uint8_t *flat, size_t bytes)
{
	struct recording *r = reader->r;
	uint64_t end = 0;

	for (size_t at = 0; at < bytes;) {
		uint64_t address;
		uint32_t n;

		if (bytes - at < HEAD_BYTES)
			return bad(reader, "memory ends in a piece");
		memcpy(&address, flat + at, sizeof(address));
		memcpy(&n, flat + at + sizeof(address), sizeof(n));
		at += HEAD_BYTES;
		if (!n || n > bytes - at || (end && address <= end) || address + n < address)
			return bad(reader, "memory is out of order");
		if (recording__add_memory(r, address, flat + at, n))
			return -ENOMEM;
		at += n;
		end = address + n;
	}
	return 0;
}

static int unpack_memory(struct reader *reader, const char *text)
{
	_cleanup_free_ uint8_t *frame = NULL, *flat = NULL;
	size_t packed, bytes;

	if (sscanf(text, "%zu %zu", &packed, &bytes) != 2 || packed > MAX_BYTES || bytes > MAX_BYTES)
		return bad(reader, "no sizes of memory");
	frame = malloc(packed + 1);
	flat = malloc(bytes + 1);
	if (!frame || !flat)
		return -ENOMEM;
	/* One byte more than there is to be. */
	if (fread(frame, 1, packed + 1, reader->in) != packed)
		return bad(reader, "the memory is cut, or something follows it");
	if (ZSTD_decompress(flat, bytes, frame, packed) != bytes)
		return bad(reader, "the memory is damaged");
	return split_memory(reader, flat, bytes);
}

static int read_line(struct reader *reader, char *text, bool *done)
{
	text[strcspn(text, "\n")] = '\0';
	reader->line++;
	if (reader->line == 1)
		return strcmp(text, "stakeout-python 1") != 0 ? bad(reader, "not a recorded Python") : 0;
	if (reader->line == 2)
		return sscanf(text, "interpreter %" SCNx64 " %" SCNx32 " %" SCNd32, &reader->r->runtime,
			      &reader->r->version, &reader->r->own) < 2
			       ? bad(reader, "not an interpreter")
			       : 0;
	if (!strncmp(text, "thread ", 7))
		return read_thread(reader, text + 7);
	if (!strncmp(text, "native ", 7))
		return read_frame(reader, RECORDING_NATIVE, text + 7);
	if (!strncmp(text, "loop ", 5))
		return read_frame(reader, RECORDING_LOOP, text + 5);
	if (!strncmp(text, "python ", 7))
		return read_frame(reader, RECORDING_PYTHON, text + 7);
	*done = !strncmp(text, "memory ", 7);
	return *done ? unpack_memory(reader, text + 7) : bad(reader, "an unknown line");
}

int recording__read(const char *path, struct recording *out, struct so_error *err)
{
	__attribute__((cleanup(cleanup__recording))) struct recording r = { 0 };
	_cleanup_fclose_ FILE *in = fopen(path, "r");
	struct reader reader = { .r = &r, .in = in, .err = err };
	_cleanup_free_ char *text = NULL;
	size_t room = 0;
	bool done = false;

	if (!in)
		return so_err(err, -errno, "%s: %s", path, strerror(errno));
	while (!done) {
		int ret;

		if (getline(&text, &room, in) < 0)
			return bad(&reader, "no memory follows");
		ret = read_line(&reader, text, &done);
		if (ret)
			return ret;
	}
	*out = r;
	r = (struct recording){ 0 };
	return 0;
}
