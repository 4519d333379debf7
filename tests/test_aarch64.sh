#!/bin/bash
# Plain C on another processor: the tree is compiled for 64-bit ARM, as it is shipped, and the cases of all ops, their
# gradients and a small training run by qemu.
. "$(dirname "$0")/test.sh"
cd "$BRASA_SOURCE/tests" || exit 1
export OMP_WAIT_POLICY=passive # two threads that wait for each other on an emulated processor

build() {
    cmake -S "$BRASA_SOURCE" -B "$work/arm" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$BRASA_SOURCE/cmake/aarch64.cmake" &&
        cmake --build "$work/arm" --target brasa_program test_core test_ops test_gradients
}

emulated() { # program, relative to the build, then its arguments
    local program=$work/arm/$1
    shift
    "$qemu" -L /usr/aarch64-linux-gnu "$program" "$@"
}

trains() {
    emulated brasa train letter_mlp --data synth:letter,n=2000 --epochs 2 --out "$work/run" --quiet &&
        [ -s "$work/run/report.html" ]
}

qemu=$(command -v qemu-aarch64-static qemu-aarch64 | head -n 1)
if [ -z "$qemu" ] || ! echo '#include <stdlib.h>' | aarch64-linux-gnu-gcc -E - >/dev/null 2>&1; then
    skip "64-bit ARM" "no cross-compiler and emulator (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static)"
    finish
fi
check "it compiles for ARM without a warning" build
check "the program runs there" emulated brasa doctor
check "core" emulated tests/test_core
check "every op on its cases" emulated tests/test_ops
check "every gradient on its cases" emulated tests/test_gradients
check "a network is trained" trains
finish
