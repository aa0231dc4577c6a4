// SPDX-License-Identifier: GPL-2.0-only
/* Which pages of a file have their blocks on disk. See mapped.h. */
#include "core/extents.h"
#include "mapped.h"

bool cache_mapped(struct cache_file *file, uint64_t number)
{
	uint8_t *piece;

	if (file->always_mapped || file->never_mapped)
		return file->always_mapped;
	if (number / MAP_PAGES >= MAP_PIECES)
		return false;
	piece = __atomic_load_n(&file->map[number / MAP_PAGES], __ATOMIC_ACQUIRE);
	if (!piece || piece == MAP_ALL)
		return piece == MAP_ALL;
	number %= MAP_PAGES;
	return __atomic_load_n(&piece[number / 8], __ATOMIC_RELAXED) >> number % 8 & 1;
}

/*
 * The piece for @number, which the caller is going to change. NULL: there is no memory, or all
 * bits have the wanted value already.
 */
static uint8_t *map_piece(struct page_cache *cache, struct cache_file *file, uint64_t number,
			  bool set)
{
	uint8_t **slot = &file->map[number / MAP_PAGES];
	uint8_t *piece = *slot;

	if (piece != NULL && piece != MAP_ALL)
		return piece;
	if (set == (piece == MAP_ALL))
		return NULL;
	piece = kp_arena_alloc(cache->arena, MAP_BYTES);
	if (piece && *slot == MAP_ALL)
		memset(piece, 0xff, MAP_BYTES);
	if (piece)
		__atomic_store_n(slot, piece, __ATOMIC_RELEASE);
	return piece;
}

static void change_map(struct page_cache *cache, struct cache_file *file, uint64_t first,
		       uint64_t nr, bool set)
{
	while (nr && first / MAP_PAGES < MAP_PIECES) {
		uint64_t at = first % MAP_PAGES;
		uint64_t here = kp_min(nr, MAP_PAGES - at);

		file->map_used = kp_max(file->map_used, (uint32_t)(first / MAP_PAGES) + 1);
		if (here == MAP_PAGES && set && !file->map[first / MAP_PAGES]) {
			__atomic_store_n(&file->map[first / MAP_PAGES], MAP_ALL, __ATOMIC_RELAXED);
		} else {
			uint8_t *piece = map_piece(cache, file, first, set);

			for (uint64_t i = at; piece && i < at + here; i++) {
				uint8_t bit = 1u << i % 8;

				/*
				 * Changes are made with the file's lock, but cache_mapped() reads
				 * without it.
				 */
				if (set)
					__atomic_fetch_or(&piece[i / 8], bit, __ATOMIC_RELAXED);
				else
					__atomic_fetch_and(&piece[i / 8], ~bit, __ATOMIC_RELAXED);
			}
		}
		first += here;
		nr -= here;
	}
}

void cache_set_mapped(struct page_cache *cache, struct cache_file *file, uint64_t first,
		      uint64_t nr)
{
	if (!file->always_mapped && !file->never_mapped)
		change_map(cache, file, first, nr, true);
}

void cache_clear_mapped(struct page_cache *cache, struct cache_file *file, uint64_t first,
			uint64_t nr)
{
	if (!file->always_mapped && !file->never_mapped)
		change_map(cache, file, first, nr, false);
}

static void clear_map(struct page_cache *cache, struct cache_file *file)
{
	for (uint32_t i = 0; i < file->map_used; i++) {
		if (file->map[i] == MAP_ALL)
			file->map[i] = NULL;
		else if (file->map[i] && kp_arena_release(cache->arena, file->map[i], MAP_BYTES))
			memset(file->map[i], 0, MAP_BYTES);
	}
}

struct reading {
	struct page_cache *cache;
	struct cache_file *file;
};

/* Whole pages of a written extent are mapped. */
static int map_extent(uint64_t pos, uint64_t len, enum kp_extent_state state, void *arg)
{
	struct reading *reading = arg;
	uint64_t first = kp_round_up(pos, KP_PAGE_SIZE);

	if (state == KP_EXTENT_WRITTEN && pos + len > first)
		cache_set_mapped(reading->cache, reading->file, first / KP_PAGE_SIZE,
				 (pos + len - first) / KP_PAGE_SIZE);
	return 0;
}

void cache_read_mapped(struct page_cache *cache, struct cache_file *file, int fd)
{
	struct reading reading = { cache, file };

	clear_map(cache, file);
	if (!file->always_mapped && !file->never_mapped && fd >= 0)
		kp_extents_walk(fd, map_extent, &reading); /* without FIEMAP nothing is mapped */
}
