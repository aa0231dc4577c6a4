#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The coverage of the judge's interval, stopping rule included, on many simulated comparisons.
# time limit: 3600
. tests/lib.sh

make tests/unit/test_judge >/dev/null
KP_SIMULATIONS=${KP_SIMULATIONS:-10000} tests/unit/test_judge
