#!/bin/bash
# Small tests under valgrind, which sees what AddressSanitizer does not: the use of memory that nobody has written.
. "$(dirname "$0")/test.sh"

if command -v valgrind >/dev/null; then
    for program in core alloc random; do
        # OpenMP keeps its threads, so "still reachable" is no leak.
        check "test_$program" valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
            "$BRASA_BUILD/tests/test_$program"
    done
else
    skip "valgrind" "not installed"
fi
finish
