#!/bin/bash
# Small tests under valgrind, which sees what AddressSanitizer does not: the use of memory that nobody has written.
# Without oneDNN and vectors: its products read past the end of its own buffers, which are no fault of ours.
. "$(dirname "$0")/test.sh"

export BRASA_ISA=ref BRASA_TEST_VALGRIND=1
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
