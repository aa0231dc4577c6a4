/* SPDX-License-Identifier: GPL-2.0-only */
/* The commands. Each takes its arguments with its own name first and returns the exit code. */
#ifndef KPOLICY_TOOLS_COMMANDS_H
#define KPOLICY_TOOLS_COMMANDS_H

int cmd_compare(int argc, char **argv);
int cmd_sweep(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_reproduce(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_show(int argc, char **argv);

#endif
