#!/bin/sh
# The compiler, with counters that show libFuzzer which code an input reaches. Cargo calls it for the packages of
# this workspace alone, so that all others are shared with ordinary builds.
exec "$@" \
    -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
