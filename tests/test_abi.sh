#!/bin/bash
# A program that was compiled against the header of tests/abi runs with today's library. That header is not changed with
# the interface: it is what programs were built with that are in use.
. "$(dirname "$0")/test.sh"
: "${CC:=cc}"
from=$BRASA_SOURCE/tests/abi
export LD_LIBRARY_PATH=$BRASA_BUILD

builds() { # compiler, then options
    "$@" -Wall -Wextra -Wpedantic -Werror "-I$from" -o "$work/program" "$from/program.c" "-L$BRASA_BUILD" -lbrasa -lm
}

check "it builds as C" builds "$CC" -std=c11
check "it runs" "$work/program" "$work/weights.safetensors"
if command -v c++ >/dev/null; then
    check "it builds as C++" builds c++ -std=c++11 -x c++
    check "that runs" "$work/program" "$work/weights.safetensors"
else
    skip "as C++" "no C++ compiler"
fi
finish
