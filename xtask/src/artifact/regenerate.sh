#!/bin/sh
# Regenerates all results of the papers without a network: `cargo xtask lab --record && tactus lab report`.
#
#   regenerate            measures all claims, records values and verdicts, and draws the figures
#   regenerate --smoke    measures a few points and compares them with the record
#
# The parameters are those of `cargo xtask lab`. An interrupted command resumes when it is repeated.
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/artifact CARGO_NET_OFFLINE=true LC_ALL=C.UTF-8
unset CARGO_HOME CARGO_TARGET_DIR RUSTUP_HOME RUSTUP_TOOLCHAIN

# The compiler finds its libraries through /proc. After an interrupt, the shell waits for cargo and unmounts /proc.
if [ ! -e /proc/self/exe ]; then
    mount -t proc proc /proc
    trap 'umount /proc' EXIT
    trap : INT TERM
fi

cd /artifact/tactus
[ $# -gt 0 ] || set -- --record
status=0
cargo xtask lab "$@" || status=$?
exit "$status"
