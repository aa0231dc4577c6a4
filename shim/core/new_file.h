/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A file that appears under its name whole, or not at all. It is written under a temporary name in
 * the same folder and renamed at the end.
 *
 * The temporary name is random, and the file is created by us alone: a link that another user planted
 * in a shared folder is not followed. Any thread.
 */
#ifndef KP_NEW_FILE_H
#define KP_NEW_FILE_H

#include <stdbool.h>
#include <stdio.h>

struct kp_new_file {
	FILE *stream; /* the caller writes here */
	char *path, *temporary;
};

/* kp_new_file_begin - begin a file that will be named @path. Return: 0 or -errno. */
int kp_new_file_begin(struct kp_new_file *file, const char *path);

/**
 * kp_new_file_end - give the file its name; an older file of that name goes.
 * @error: 0, or why the caller could not write the file, which then is removed.
 * @durable: the contents are on the disk before the file gets its name.
 *
 * Return: 0; @error; -errno. Unless it is 0 the file is gone.
 */
int kp_new_file_end(struct kp_new_file *file, int error, bool durable);

#endif
