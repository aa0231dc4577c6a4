# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Jobs whose I/O overlaps, forked and threads: no false EIO, and in the end every sum matches. The
# long form is tests/long/checksum-overlap.sh.
. tests/lib.sh
. tests/checksum.sh

overlap libaio async 0 2
overlap io_uring inline 0 2
overlap io_uring unsplit_inline 1 2
overlap psync async 1 2
