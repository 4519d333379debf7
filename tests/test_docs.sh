#!/bin/bash
# What the documents show is what the files say.
. "$(dirname "$0")/test.sh"
cd "$BRASA_SOURCE" || exit 1

# The first C block of the README is examples/first.c without its head; blanks may differ.
first_program() {
    awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' README.md | tr -s ' ' >"$work/readme"
    awk 'inside; /^ \*\/$/ { inside = 1 }' examples/first.c | tr -s ' ' >"$work/example"
    [ -s "$work/readme" ] && diff "$work/readme" "$work/example"
}

# Every file and folder that a document links to is there.
links() {
    local document target missing=0
    for document in ./*.md docs/*.md; do
        for target in $(grep -o '](\([^)#]*\)' "$document" | cut -c 3- | grep -v '^http'); do
            [ -e "$(dirname "$document")/$target" ] || { echo "$document: $target" && missing=1; }
        done
    done
    return $missing
}

check "the README's program is examples/first.c" first_program
check "links lead to files" links
check "the first program runs" "$BRASA_BUILD/examples/first"
finish
