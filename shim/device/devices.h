/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The door of the devices: the bottom stages of a pipeline, which hand requests to the kernel or,
 * as the null device, to a model. core/device.h has the interface that each of them implements.
 *
 * psync does one blocking system call per request and ends the request inside submit. libaio and
 * io_uring keep requests in flight at an interface of the kernel; request.h has what both remember
 * of a request. null is a model of null_blk, whose time and contents lie in the arena, so that all
 * jobs share one device. fault.c is a stage above the device that misbehaves for tests.
 *
 * A device belongs to one pipeline. In a shared pipeline its lock protects its request slots and
 * what it holds until the next flush; nothing nests inside that lock. Only the owner reaps.
 *
 * The pipeline chooses a device here when it is made, and calls its hooks from then on. Nobody else
 * includes this header, but tests may.
 */
#ifndef KP_DEVICES_H
#define KP_DEVICES_H

#include "core/device.h"

extern const struct kp_device_ops kp_psync_device;
extern const struct kp_device_ops kp_libaio_device;
extern const struct kp_device_ops kp_io_uring_device;
extern const struct kp_device_ops kp_null_device;

/*
 * kp_device_choose - the device of a name, or the one that stands in for it when it cannot do what
 * stages need (enum kp_stage_needs). Return: NULL when there is no device of that name.
 */
const struct kp_device_ops *kp_device_choose(const char *name, unsigned int needs);

/* For tests: a stage above the device that corrupts or fails I/O. See fault.c. */
extern const struct kp_stage_ops kp_fault_stage;

/* kp_fault_check - 0; -EINVAL, with one line in @why, when there is no such fault. */
int kp_fault_check(const char *fault, char *why, size_t why_size);

#endif
