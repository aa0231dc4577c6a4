/* SPDX-License-Identifier: GPL-2.0-only */
/* What fio replaces in a job file's lines before it parses them. */
#ifndef KPOLICY_TOOLS_SUBST_H
#define KPOLICY_TOOLS_SUBST_H

/*
 * @option ("key=value" or "key") as fio's parser sees it: ${NAME} replaced from the environment
 * (by nothing when unset), then $pagesize, $mb_memory and $ncpus; when one of those was replaced,
 * arithmetic in the value is carried out, in whole numbers. Where fio's own result would be an
 * error the text is left as it is: fio reports it. The caller frees the result; NULL when memory
 * is short.
 */
char *subst_expand(const char *option);

#endif
