// SPDX-License-Identifier: GPL-2.0-only
/* The table of devices, and the checks of a device's options. See devices.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/limits.h"
#include "devices.h"

/* The first one also stands in for others on real files: it satisfies every need. */
static const struct kp_device_ops *const devices[] = {
	&kp_libaio_device,
	&kp_io_uring_device,
	&kp_psync_device,
	&kp_null_device,
};

#define NR_DEVICES (sizeof(devices) / sizeof(*devices))

const char *const kp_backends[] = { "libaio", "io_uring", "psync", "null", NULL };

static const struct kp_device_ops *find_device(const char *name)
{
	for (size_t i = 0; i < NR_DEVICES; i++) {
		if (name && !strcmp(devices[i]->stage.name, name))
			return devices[i];
	}
	return NULL;
}

static bool satisfies(const struct kp_device_ops *ops, unsigned int needs)
{
	return !(ops->caps & KP_BACKEND_SYNCHRONOUS && needs & KP_NEEDS_ASYNC_DEVICE) &&
	       (ops->caps & KP_BACKEND_OWN_IO || !(needs & KP_NEEDS_OWN_IO));
}

const struct kp_device_ops *kp_device_choose(const char *name, unsigned int needs)
{
	const struct kp_device_ops *ops = find_device(name);

	return !ops || satisfies(ops, needs) ? ops : devices[0];
}

unsigned int kp_backend_caps(const char *name)
{
	const struct kp_device_ops *ops = find_device(name);

	return ops ? ops->caps : 0;
}

int kp_device_check(const struct kp_device_config *config, char *why, size_t why_size)
{
	const struct kp_device_ops *ops = find_device(config->backend);
	int ret;

	if (!ops) {
		snprintf(why, why_size, "backend=%s: unknown, give libaio, io_uring, psync or null",
			 config->backend ? config->backend : "");
		return -EINVAL;
	}
	ret = kp_limits_check_options(&config->limits, why, why_size);
	if (!ret && config->fault)
		ret = kp_fault_check(config->fault, why, why_size);
	if (!ret && ops->check)
		ret = ops->check(config, why, why_size);
	return ret;
}
