# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# tests/fault/set-up.sh with every call in turn.
# time limit: 3600
KP_STEP=1
. tests/fault/set-up.sh
