/* SPDX-License-Identifier: GPL-2.0-only */
/* The devices, and the stage that misbehaves for tests. */
#ifndef KP_DEVICES_H
#define KP_DEVICES_H

#include "core/device.h"

extern const struct kp_device_ops kp_psync_device;
extern const struct kp_device_ops kp_libaio_device;
extern const struct kp_device_ops kp_io_uring_device;
extern const struct kp_device_ops kp_null_device;

/* For tests: a stage above the device that corrupts or fails I/O. See shim/device/fault.c. */
extern const struct kp_stage_ops kp_fault_stage;
int kp_fault_check(const char *fault);

#endif
