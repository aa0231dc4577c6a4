/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * print/ - shows an analysis.
 *
 *	table		rows of texts, printed as text, markdown, CSV or HTML
 *	report		a comparison as text, markdown, CSV or JSON
 *	plot		pictures, drawn by gnuplot
 *	html		all of it on one page
 *
 * State: none. Everything that is printed is taken from an analysis and from its session's
 * directory, so that the same result is printed the same way at any time. Files are written whole or
 * not at all, and a function that cannot write one prints the reason. The files here include util/,
 * stats/ and run/; the commands call them.
 */
#ifndef KPOLICY_TOOLS_PRINT_H
#define KPOLICY_TOOLS_PRINT_H

#include "html.h"
#include "plot.h"
#include "report.h"
#include "table.h"

#endif
