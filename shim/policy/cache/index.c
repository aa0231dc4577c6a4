// SPDX-License-Identifier: GPL-2.0-only
/* The index of a file's pages, see index.h: a radix tree with 64 slots in a node. */
#include "index.h"

#define NODES_PER_CHUNK 256u
#define MAX_HEIGHT	11 /* 66 bits */

/* The nodes from a leaf up to the root. */
struct path {
	struct index_node *nodes[MAX_HEIGHT]; /* the leaf first */
	uint32_t ids[MAX_HEIGHT];
};

static struct index_node *node_of(struct page_index *index, uint32_t id)
{
	return &index->chunks[id / NODES_PER_CHUNK][id % NODES_PER_CHUNK];
}

static unsigned int slot_at(uint64_t number, unsigned int level)
{
	return (number >> (level * INDEX_SHIFT)) % INDEX_SLOTS;
}

/* Can a tree of the present height hold @number? */
static bool reaches(const struct page_index *index, uint64_t number)
{
	unsigned int bits = index->height * INDEX_SHIFT;

	return index->height && (bits >= 64 || !(number >> bits));
}

static uint32_t new_node(struct page_index *index, struct kp_arena *arena)
{
	uint32_t id = index->free;

	if (id) {
		index->free = node_of(index, id)->slots[0];
	} else {
		struct index_node **chunk;

		id = index->nr_nodes + 1;
		if (id / NODES_PER_CHUNK == INDEX_CHUNKS)
			return 0;
		chunk = &index->chunks[id / NODES_PER_CHUNK];
		if (!*chunk)
			*chunk = kp_arena_alloc(arena, NODES_PER_CHUNK * sizeof(**chunk));
		if (!*chunk)
			return 0;
		index->nr_nodes = id;
	}
	memset(node_of(index, id), 0, sizeof(struct index_node));
	return id;
}

static void free_node(struct page_index *index, uint32_t id)
{
	node_of(index, id)->slots[0] = index->free;
	index->free = id;
	if (index->leaf == id)
		index->leaf = 0;
}

/* The leaf that holds @number, or NULL. */
static struct index_node *find_leaf(struct page_index *index, uint64_t number)
{
	uint64_t base = number & ~(uint64_t)(INDEX_SLOTS - 1);
	uint32_t id = index->root;

	if (index->leaf && index->leaf_base == base)
		return node_of(index, index->leaf);
	if (!reaches(index, number))
		return NULL;
	for (unsigned int level = index->height - 1; level && id; level--)
		id = node_of(index, id)->slots[slot_at(number, level)];
	if (!id)
		return NULL;
	index->leaf = id;
	index->leaf_base = base;
	return node_of(index, id);
}

uint32_t page_index_find(struct page_index *index, uint64_t number)
{
	struct index_node *leaf = find_leaf(index, number);

	return leaf ? leaf->slots[slot_at(number, 0)] : 0;
}

/* Collect the nodes that lead to @number, which is in the tree. */
static void walk(struct page_index *index, uint64_t number, struct path *path)
{
	uint32_t id = index->root;

	for (unsigned int level = index->height; level-- > 0;) {
		path->ids[level] = id;
		path->nodes[level] = node_of(index, id);
		id = path->nodes[level]->slots[slot_at(number, level)];
	}
}

void page_index_set(struct page_index *index, uint64_t number, enum page_mark mark)
{
	struct path path;

	walk(index, number, &path);
	for (unsigned int level = 0; level < index->height; level++) {
		uint64_t bit = 1ull << slot_at(number, level);

		if (path.nodes[level]->marks[mark] & bit)
			return; /* the nodes above have the mark, too */
		path.nodes[level]->marks[mark] |= bit;
	}
}

static void clear_mark(struct page_index *index, uint64_t number, enum page_mark mark,
		       const struct path *path)
{
	for (unsigned int level = 0; level < index->height; level++) {
		path->nodes[level]->marks[mark] &= ~(1ull << slot_at(number, level));
		if (path->nodes[level]->marks[mark])
			return; /* other slots of this node have it */
	}
}

void page_index_clear(struct page_index *index, uint64_t number, enum page_mark mark)
{
	struct path path;

	walk(index, number, &path);
	clear_mark(index, number, mark, &path);
}

/* Grow the tree until it can hold @number. */
static int grow(struct page_index *index, struct kp_arena *arena, uint64_t number)
{
	while (!reaches(index, number)) {
		uint32_t id;

		if (!index->root) {
			/* The tree is empty: it can start at any height. */
			index->height++;
			continue;
		}
		id = new_node(index, arena);
		if (!id)
			return -ENOMEM;
		for (unsigned int mark = 0; mark < PAGE_NR_MARKS; mark++)
			node_of(index, id)->marks[mark] =
				node_of(index, index->root)->marks[mark] != 0;
		node_of(index, id)->slots[0] = index->root;
		index->root = id;
		index->height++;
	}
	return 0;
}

/* Free the nodes above @number that have become empty, from the leaf up. */
static void prune(struct page_index *index, uint64_t number, const struct path *path)
{
	for (unsigned int level = 0; level < index->height; level++) {
		if (path->nodes[level]->marks[PAGE_PRESENT])
			return;
		free_node(index, path->ids[level]);
		if (level + 1 < index->height)
			path->nodes[level + 1]->slots[slot_at(number, level + 1)] = 0;
	}
	index->root = 0;
	index->height = 0;
}

int page_index_insert(struct page_index *index, struct kp_arena *arena, uint64_t number,
		      uint32_t id)
{
	struct index_node *leaf = find_leaf(index, number);
	struct index_node *above = NULL;
	uint32_t node;

	if (!leaf) {
		if (grow(index, arena, number))
			return -ENOMEM;
		/*
		 * If a node cannot be allocated, the empty ones above it stay. They have no marks
		 * and do no harm.
		 */
		node = index->root;
		for (unsigned int level = index->height; level-- > 0;) {
			if (!node) {
				node = new_node(index, arena);
				if (!node)
					return -ENOMEM;
				if (above)
					above->slots[slot_at(number, level + 1)] = node;
				else
					index->root = node;
			}
			above = node_of(index, node);
			node = above->slots[slot_at(number, level)];
		}
		leaf = above;
	}
	if (!leaf)
		return -ENOMEM;
	leaf->slots[slot_at(number, 0)] = id;
	page_index_set(index, number, PAGE_PRESENT);
	return 0;
}

void page_index_remove(struct page_index *index, uint64_t number)
{
	struct path path;

	walk(index, number, &path);
	for (unsigned int mark = 0; mark < PAGE_NR_MARKS; mark++)
		clear_mark(index, number, mark, &path);
	path.nodes[0]->slots[slot_at(number, 0)] = 0;
	prune(index, number, &path);
}

/* Find the first page with @mark below node @id, whose first number is @base. */
static uint32_t next_below(struct page_index *index, uint32_t id, unsigned int level, uint64_t base,
			   uint64_t from, enum page_mark mark, uint64_t *number)
{
	struct index_node *node = node_of(index, id);
	unsigned int shift = level * INDEX_SHIFT;
	unsigned int first = from > base ? (from - base) >> shift : 0;

	for (uint64_t bits = node->marks[mark] & (~0ull << first); bits; bits &= bits - 1) {
		unsigned int slot = __builtin_ctzll(bits);
		uint64_t at = base + ((uint64_t)slot << shift);
		uint32_t found = node->slots[slot];

		if (!level) {
			*number = at;
			return found;
		}
		found = next_below(index, found, level - 1, at, from, mark, number);
		if (found)
			return found;
	}
	return 0;
}

uint32_t page_index_next(struct page_index *index, uint64_t from, enum page_mark mark,
			 uint64_t *number)
{
	if (!index->root || !reaches(index, from))
		return 0;
	return next_below(index, index->root, index->height - 1, 0, from, mark, number);
}

void page_index_reset(struct page_index *index)
{
	index->root = 0;
	index->height = 0;
	index->free = 0;
	index->nr_nodes = 0;
	index->leaf = 0;
}
