/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The index of a file's pages: it maps page numbers to pages, and finds pages with a mark without
 * looking at those that lack it. It stands for the xarray of an address_space and its tags.
 *
 * It lies in the arena. The caller's lock protects it. No function here waits.
 */
#ifndef KP_PAGE_INDEX_H
#define KP_PAGE_INDEX_H

#include "stage.h"

enum page_mark {
	PAGE_PRESENT, /* there is a page */
	PAGE_DIRTY,
	PAGE_TOWRITE, /* the running sync has to write it */
	PAGE_WRITEBACK,
	PAGE_NR_MARKS,
};

#define INDEX_SHIFT  6
#define INDEX_SLOTS  (1u << INDEX_SHIFT)
#define INDEX_CHUNKS 65536u

struct index_node {
	uint64_t marks[PAGE_NR_MARKS]; /* a slot's bit is set if anything below it has the mark */
	uint32_t slots[INDEX_SLOTS];   /* page ids in a leaf, node ids above; 0: none */
};

struct page_index {
	uint32_t root;	    /* node id, 0: the index is empty */
	uint32_t height;    /* levels */
	uint32_t free;	    /* freed nodes, linked by slots[0] */
	uint32_t nr_nodes;  /* ids handed out */
	uint32_t leaf;	    /* the leaf that was used last, 0: none */
	uint64_t leaf_base; /* its first page number */
	struct index_node *chunks[INDEX_CHUNKS];
};

/* page_index_find - the id of page @number, 0: none. */
uint32_t page_index_find(struct page_index *index, uint64_t number);

/*
 * page_index_insert - add page @number, which must not be there. Return: 0; -ENOMEM, then nothing
 * changed.
 */
int page_index_insert(struct page_index *index, struct kp_arena *arena, uint64_t number,
		      uint32_t id);

/* page_index_remove - remove page @number with its marks. It must be there. */
void page_index_remove(struct page_index *index, uint64_t number);

/* page_index_set, page_index_clear - change a mark of a page that is there. */
void page_index_set(struct page_index *index, uint64_t number, enum page_mark mark);
void page_index_clear(struct page_index *index, uint64_t number, enum page_mark mark);

/*
 * page_index_next - the first page at or after @from that has @mark.
 * Return: its id, and its number in *@number; 0: none.
 */
uint32_t page_index_next(struct page_index *index, uint64_t from, enum page_mark mark,
			 uint64_t *number);

/* page_index_reset - forget all pages, whatever state the index is in. */
void page_index_reset(struct page_index *index);

#endif
