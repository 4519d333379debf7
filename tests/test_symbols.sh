#!/bin/bash
# Both libraries give away brasa_* names only, and the header's functions are all there.
. "$(dirname "$0")/test.sh"

shared=$BRASA_BUILD/libbrasa.so static=$BRASA_BUILD/libbrasa.a

# The names that a library defines for others. The linker adds three of its own to a shared library where another one
# that it is linked with has them, as some builds of oneDNN do.
given() { # shared or static
    if [ "$1" = shared ]; then nm -D --defined-only "$shared"; else nm -g --defined-only "$static"; fi |
        awk 'NF == 3 && $3 !~ /^(__bss_start|_edata|_end)$/ { print $3 }'
}

no_others() {
    ! given "$1" | grep -v '^brasa_'
}

all_of_header() { # names right before a parenthesis on a line that starts with BRASA_API
    grep -o '^BRASA_API .*' "$BRASA_SOURCE/include/brasa.h" | grep -o 'brasa_[a-z0-9_]*(' | tr -d '(' |
        sort -u >"$work/header"
    given "$1" | sort -u >"$work/given"
    [ -s "$work/header" ] && diff "$work/header" "$work/given"
}

soname() {
    readelf -d "$shared" | grep -q 'SONAME.*\[libbrasa\.so\.0\]'
}

# A library that exits, aborts or prints would take its user's program along.
no_exit() {
    ! nm -D --undefined-only "$shared" | grep -wE 'exit|_exit|abort|puts|printf|perror'
}

for kind in shared static; do
    check "$kind: only brasa_* names" no_others $kind
    check "$kind: exactly the header's functions" all_of_header $kind
done
check "the shared library's name carries its version" soname
check "the library does not exit, abort or print" no_exit
finish
