// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

static void *need(void *memory)
{
	if (!memory) {
		message("out of memory");
		exit(EXIT_CANNOT);
	}
	return memory;
}

void *xcalloc(size_t nr, size_t size)
{
	return need(calloc(nr ? nr : 1, size));
}

void *xrealloc(void *old, size_t nr, size_t size)
{
	return need(reallocarray(old, nr ? nr : 1, size));
}

char *xstrdup(const char *text)
{
	return need(strdup(text));
}

char *xstrndup(const char *text, size_t len)
{
	return need(strndup(text, len));
}

char *vformat(const char *fmt, va_list args)
{
	char *text;

	return need(vasprintf(&text, fmt, args) < 0 ? NULL : text);
}

char *format(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *text = vformat(fmt, args);
	va_end(args);
	return text;
}

void *grow_array(void *array, size_t nr, size_t size)
{
	if (nr & (nr - 1))
		return array;
	return xrealloc(array, nr ? nr * 2 : 1, size);
}

void text_list_add(struct text_list *list, const char *fmt, ...)
{
	va_list args;

	list->item = grow_array(list->item, list->nr, sizeof(*list->item));
	va_start(args, fmt);
	list->item[list->nr++] = vformat(fmt, args);
	va_end(args);
}

bool text_list_has(const struct text_list *list, const char *item)
{
	for (size_t i = 0; i < list->nr; i++)
		if (!strcmp(list->item[i], item))
			return true;
	return false;
}

void text_list_free(struct text_list *list)
{
	for (size_t i = 0; i < list->nr; i++)
		free(list->item[i]);
	free(list->item);
	*list = (struct text_list){ 0 };
}

FILE *stream_open(struct stream *stream)
{
	stream->out = need(open_memstream(&stream->text, &stream->len));
	return stream->out;
}

char *stream_text(struct stream *stream)
{
	return need(fclose(stream->out) ? NULL : stream->text);
}

void message(const char *fmt, ...)
{
	va_list args;

	/* A progress line may stand there. */
	fputs(isatty(STDERR_FILENO) ? "\r\033[Kkpolicy: " : "kpolicy: ", stderr);
	va_start(args, fmt);
	char *text = vformat(fmt, args);
	va_end(args);
	/* What a user typed may hold anything; a message is one line. */
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	fprintf(stderr, "%s\n", text);
	free(text);
}

bool complain(char *error)
{
	message("%s", error);
	free(error);
	return false;
}

int write_whole(const char *path, int (*write)(FILE *to, const void *arg), const void *arg)
{
	char *temporary = format("%s.%d.partial", path, (int)getpid());
	FILE *to = fopen(temporary, "w");
	int ret;

	if (!to) {
		ret = -errno;
		free(temporary);
		return ret;
	}
	ret = write(to, arg);
	if (!ret && (fflush(to) || ferror(to) || fsync(fileno(to))))
		ret = errno ? -errno : -EIO;
	if (fclose(to) && !ret)
		ret = -errno;
	if (!ret && rename(temporary, path))
		ret = -errno;
	if (ret)
		unlink(temporary);
	free(temporary);
	return ret;
}

char *read_whole(const char *path, size_t *len)
{
	FILE *from = fopen(path, "r");
	size_t room = 0, nr = 0, got;
	char *text = NULL;

	if (!from)
		return NULL;
	do {
		if (nr + 1 >= room) {
			room = room ? 2 * room : 16384;
			text = xrealloc(text, room, 1);
		}
		got = fread(text + nr, 1, room - nr - 1, from);
		nr += got;
	} while (got);
	int error = ferror(from) ? (errno ? errno : EIO) : 0;
	fclose(from);
	if (error) {
		free(text);
		errno = error;
		return NULL;
	}
	text[nr] = '\0';
	if (len)
		*len = nr;
	return text;
}

/* The length of the UTF-8 sequence at @text, 0 when it is none: too long, or no code point. */
static size_t utf8_length(const unsigned char *text)
{
	static const unsigned int least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned int point;
	size_t len;

	if (*text < 0x80)
		return 1;
	len = *text >= 0xf0 ? 4 : *text >= 0xe0 ? 3 : 2;
	if (*text < 0xc0 || *text > 0xf7)
		return 0;
	point = *text & (0x7f >> len);
	for (size_t i = 1; i < len; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (text[i] & 0x3f);
	}
	return point < least[len] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) ? 0
											     : len;
}

void make_utf8(char *text)
{
	while (*text) {
		size_t len = utf8_length((unsigned char *)text);

		if (!len)
			*text = '?';
		text += len ? len : 1;
	}
}

char *read_line(const char *path)
{
	char *text = read_whole(path, NULL);

	if (!text)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	size_t len = strlen(text);
	while (len && text[len - 1] == ' ')
		text[--len] = '\0';
	return text;
}

char *temporary_path(const char *name)
{
	const char *dir = getenv("TMPDIR");

	return format("%s/kpolicy-%s", dir && *dir ? dir : "/tmp", name);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

void remove_tree(const char *dir)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

char *text_vformat_at(const char *file, unsigned int line, const char *fmt, va_list ap)
{
	char *what = vformat(fmt, ap);
	char *text = line ? format("%s:%u: %s", file, line, what) : format("%s: %s", file, what);

	free(what);
	return text;
}

char *text_format_at(const char *file, unsigned int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	char *text = text_vformat_at(file, line, fmt, ap);
	va_end(ap);
	return text;
}

/* Levenshtein distance with one row kept. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t nr = strlen(b), i;
	size_t *row = xcalloc(nr + 1, sizeof(*row));

	for (i = 0; i <= nr; i++)
		row[i] = i;
	for (size_t done = 1; *a; a++, done++) {
		size_t diagonal = row[0];

		row[0] = done;
		for (i = 1; i <= nr; i++) {
			size_t best = diagonal + (*a != b[i - 1]);

			if (row[i] + 1 < best)
				best = row[i] + 1;
			if (row[i - 1] + 1 < best)
				best = row[i - 1] + 1;
			diagonal = row[i];
			row[i] = best;
		}
	}
	size_t distance = row[nr];
	free(row);
	return distance;
}

const char *text_nearest(const char *name, const char *const *candidates)
{
	size_t best = (strlen(name) + 1) / 2 + 1;
	const char *nearest = NULL;

	for (; *candidates; candidates++) {
		size_t distance = edit_distance(name, *candidates);

		if (distance < best) {
			best = distance;
			nearest = *candidates;
		}
	}
	return nearest;
}

char *text_next_path(char **rest)
{
	char *item, *to, *from;

	if (!*rest)
		return NULL;
	/* fio skips empty items at the front: '::a' names 'a' */
	item = *rest + strspn(*rest, ":");
	if (!*item) {
		*rest = NULL;
		return NULL;
	}
	for (to = from = item; *from && *from != ':'; from++) {
		if (from[0] == '\\' && from[1] == ':')
			from++;
		*to++ = *from;
	}
	*rest = *from ? from + 1 : NULL;
	*to = '\0';
	return item;
}
