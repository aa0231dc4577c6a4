# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# The unit test of the checksum policy with every way of computing on every device.
# time limit: 900
. tests/lib.sh
make tests/unit/test_checksum
KP_LONG=1 tests/unit/test_checksum
