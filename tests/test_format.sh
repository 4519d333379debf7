#!/bin/bash
# Every C file is as clang-format and .editorconfig want it.
. "$(dirname "$0")/test.sh"
cd "$BRASA_SOURCE" || exit 1

mapfile -t files < <(find include src cli examples fuzz tests -name '*.[ch]')

no_tabs_or_trailing_blanks() {
    ! grep -nP '\t|\r| $' "${files[@]}"
}

if command -v clang-format >/dev/null; then
    check "clang-format has nothing to change" clang-format --dry-run --Werror "${files[@]}"
else
    skip "clang-format has nothing to change" "no clang-format"
fi
check "no tabs, no blanks at the end of a line" no_tabs_or_trailing_blanks
finish
