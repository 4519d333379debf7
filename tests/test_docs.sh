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

# The tour and the list of rooms name every folder of the sources, and none that is not there.
tour() {
    local folder named missing=0
    for folder in src/*/; do
        folder=${folder%/}
        sed -n '/^## A tour/,/^## /p' README.md | grep -q "$folder[/)]" || { echo "README's tour: no $folder" && missing=1; }
        grep -q "^| \`$folder/\`" docs/architecture.md || { echo "docs/architecture.md: no $folder" && missing=1; }
    done
    for named in $(sed -n '/^## Rooms/,/^## Types/p' docs/architecture.md | grep -o '^| `[a-z./]*`' | tr -d '|` '); do
        [ -e "$named" ] || { echo "docs/architecture.md: $named" && missing=1; }
    done
    return $missing
}

# The passes, in their order, are those that are declared, a file each; a session runs them all.
passes() {
    grep -o 'brasa_status pass_[a-z]*' src/graph/*.h | sed 's/.*pass_//' | sort >"$work/declared"
    grep '^lower → ' docs/architecture.md | sed 's/ → /\n/g' >"$work/listed"
    sort "$work/listed" | diff "$work/declared" - || return 1
    while read -r pass; do
        grep -q "pass_$pass(" "src/graph/$pass.c" || { echo "src/graph/$pass.c: no pass_$pass" && return 1; }
        grep -q "\`$pass\.c\`" README.md || { echo "README's tour: no $pass.c" && return 1; }
    done <"$work/listed"
    grep -ho 'pass_[a-z]*(' src/session/*.c | tr -d '(' | sed 's/pass_//' | sort -u | diff "$work/declared" -
}

check "the README's program is examples/first.c" first_program
check "links lead to files" links
check "the tour names the folders" tour
check "the passes are told truly" passes
check "the first program runs" "$BRASA_BUILD/examples/first"
finish
