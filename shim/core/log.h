/* SPDX-License-Identifier: GPL-2.0-only */
/* Messages for the user. */
#ifndef KP_LOG_H
#define KP_LOG_H

#define KP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* kp_log - one line for the user; kp_set_log() says where it goes. Any thread. */
void kp_log(const char *format, ...) KP_PRINTF(1, 2);

#endif
