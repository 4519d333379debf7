#!/bin/bash
# sum.sh - reads `ctest -V`, shows a line for each test program and what failing ones said, and ends with the sum of
# their cases: `N passed, N failed`. Before it stands what was skipped, once for each reason: `skipped: REASON (NAMES)`. A
# program that dies, or fails after its own last line (a leak found at exit), counts as one failed case. Several runs may
# come one after the other.
declare -A output counts names
passed=0 failed=0 programs=0 reasons=()
shown=40 # lines of a failing program; ./run test keeps all of them in test.log

finished() { # number, name, seconds, 1 if ctest calls it passed
    local ok=$4 p=0 f=0
    if [[ ${counts[$1]:-} =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
        p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]}
    else
        ok=0
    fi
    if [ "$ok" = 0 ] && [ "$f" = 0 ]; then f=1; fi
    passed=$((passed + p)) failed=$((failed + f)) programs=$((programs + 1))
    printf '%-24s %5d passed%s  %s s\n' "$2" "$p" "$([ "$f" = 0 ] || echo ", $f FAILED")" "$3"
    if [ "$f" != 0 ]; then printf '%s' "${output[$1]:-}" | head -n "$shown"; fi
}

skipped() { # "NAME: REASON"
    local name=${1%%: *} reason=${1#*: }
    [ -n "${names[$reason]:-}" ] || reasons+=("$reason")
    case ", ${names[$reason]:-}, " in *", $name, "*) return ;; esac
    names[$reason]+="${names[$reason]:+, }$name"
}

while IFS= read -r line; do
    if [[ $line =~ ^test\ ([0-9]+)$ ]]; then
        output[${BASH_REMATCH[1]}]="" counts[${BASH_REMATCH[1]}]=""
    elif [[ $line =~ ^([0-9]+):\ (.*)$ ]]; then
        number=${BASH_REMATCH[1]} text=${BASH_REMATCH[2]}
        if [[ $text == "Test timeout computed"* ]]; then output[$number]="" text=""; fi # the end of ctest's own words
        [ -z "$text" ] || output[$number]+="    $text"$'\n'
        if [[ $text =~ ^[0-9]+\ passed,\ [0-9]+\ failed ]]; then counts[$number]=$text; fi
        if [[ $text == "skipped "* ]]; then skipped "${text#skipped }"; fi
    elif [[ $line =~ ^\ *[0-9]+/[0-9]+\ Test\ +#([0-9]+):\ ([^ ]+)\ .*\ ([0-9.]+)\ sec ]]; then
        finished "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "${BASH_REMATCH[3]}" "$([[ $line =~ \ Passed\ |Skipped\  ]]; echo $((!$?)))"
    fi
done

if [ $programs = 0 ]; then failed=1; fi
for reason in "${reasons[@]}"; do echo "skipped: $reason (${names[$reason]})"; done
echo "$passed passed, $failed failed"
exit $((failed > 0))
