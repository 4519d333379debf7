# shellcheck shell=bash
# test.sh - what test scripts share; to be sourced. A script gets BRASA_SOURCE and BRASA_BUILD from ctest, and a folder
# of its own, $work, that is removed at its end.
#
#     check "the program runs" ./program        # passes if the command succeeds; shows its output if not
#     skip "clang compiles it" "no clang"
#     finish

set -u
: "${BRASA_SOURCE:=$(cd "$(dirname "$0")/.." && pwd)}" "${BRASA_BUILD:=$BRASA_SOURCE/build}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

check() { # name command...
    local name=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        tail -n 30 "$work/output"
    fi
}

skip() { # name reason
    skipped=$((skipped + 1))
    echo "skipped $1: $2"
}

finish() {
    local line="$passed passed, $failed failed"
    [ "$skipped" = 0 ] || line="$line, $skipped skipped"
    echo "$line"
    exit $((failed > 0))
}
