/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a case writes down the memory of an I/O: "0+8*16/16,4096+3" is 16 stretches of 8 sectors,
 * 16 sectors from one to the next, then 3 sectors. Read by the recorder, which makes iovecs of it,
 * and by the replay, which makes segments.
 *
 * Positions count sectors of 512 bytes in the arena: AREAS areas of 4096 sectors. The recorder puts
 * each area into a huge page, so that the pages of an area adjoin in memory, and leaves a gap
 * between two areas.
 */
#ifndef LAB_VECTOR_H
#define LAB_VECTOR_H

#include <stdbool.h>
#include <stdlib.h>

#define LAB_AREAS	  8u
#define LAB_AREA_SECTORS  4096u
#define LAB_MAX_STRETCHES 1024u

struct lab_stretch {
	unsigned int start, sectors;
};

/* lab_parse_vector - Return: stretches, 0 when the text is not a vector. */
static inline unsigned int lab_parse_vector(const char *text, struct lab_stretch *stretches)
{
	unsigned int nr = 0;

	for (;;) {
		char *end;
		unsigned long start = strtoul(text, &end, 10), sectors, count = 1, stride = 0;

		if (*end != '+')
			return 0;
		sectors = strtoul(end + 1, &end, 10);
		if (*end == '*')
			count = strtoul(end + 1, &end, 10);
		if (*end == '/')
			stride = strtoul(end + 1, &end, 10);
		for (; count; count--, start += stride) {
			if (nr == LAB_MAX_STRETCHES)
				return 0;
			stretches[nr++] = (struct lab_stretch){ start, sectors };
		}
		if (*end != ',')
			return nr;
		text = end + 1;
	}
}

#endif
