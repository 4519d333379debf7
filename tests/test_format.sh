#!/bin/bash
# Every C file is as clang-format and .editorconfig want it.
. "$(dirname "$0")/test.sh"
cd "$BRASA_SOURCE" || exit 1

mapfile -t files < <(find include src cli examples fuzz tests -name '*.[ch]')

no_tabs_or_trailing_blanks() {
    ! grep -nP '\t|\r| $' "${files[@]}"
}

# Versions format differently: only the one that the project is formatted with can tell.
formatted_with=14
found=$(clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p')
if [ "$found" = "$formatted_with" ]; then
    check "clang-format has nothing to change" clang-format --dry-run --Werror "${files[@]}"
elif [ -n "$found" ]; then
    skip "clang-format has nothing to change" "clang-format $found found, the project is formatted with $formatted_with"
else
    skip "clang-format has nothing to change" "no clang-format"
fi
check "no tabs, no blanks at the end of a line" no_tabs_or_trailing_blanks
finish
