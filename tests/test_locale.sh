#!/bin/bash
# Numbers keep their point in a program that has set a locale with a decimal comma. A bare machine has no such locale:
# one is made, into a folder of its own.
. "$(dirname "$0")/test.sh"

in_german() {
    LOCPATH=$work LC_ALL=de_DE.UTF-8 "$@"
}

# The tests skip themselves without a locale, which would pass for success.
numbers() { # program
    in_german "$BRASA_BUILD/tests/$1" numbers_in_a_locale >"$work/said"
    cat "$work/said"
    grep -qx '1 passed, 0 failed' "$work/said"
}

if ! command -v localedef >/dev/null || [ ! -e /usr/share/i18n/locales/de_DE ]; then
    skip "numbers in a locale with commas" "no localedef, or no sources of locales"
    finish
fi
check "a locale is made" localedef -i de_DE -f UTF-8 "$work/de_DE.UTF-8"
check "it has a decimal comma" test "$(in_german locale decimal_point)" = ,
check "the library" numbers test_core
check "reports" numbers test_report
finish
