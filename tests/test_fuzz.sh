#!/bin/bash
# Every target of fuzz/ for a few seconds each: enough to see that they build, run, and still find nothing at once.
. "$(dirname "$0")/test.sh"
seconds=${BRASA_FUZZ_SECONDS:-15}

build() {
    cmake -S "$BRASA_SOURCE" -B "$work/build" -G Ninja -DCMAKE_C_COMPILER=clang -DBRASA_FUZZ=ON -DBRASA_OPENMP=OFF \
        -DBRASA_TESTS=OFF && cmake --build "$work/build"
}

seeds() {
    python3 "$BRASA_SOURCE/fuzz/make_seeds.py" "$work/seeds/safetensors" &&
        python3 "$BRASA_SOURCE/fuzz/make_data_seeds.py" "$work/seeds" &&
        "$BRASA_BUILD/brasa" data make synth:fire,n=6,size=32 "$work/seeds/picture/jpeg"
}

fuzz() { # target
    mkdir -p "$work/corpus/$1" "$work/seeds/$1"
    (cd "$work" && "$work/build/fuzz/fuzz_$1" -max_len=4096 -max_total_time="$seconds" -rss_limit_mb=4000 \
        "$work/corpus/$1" "$work/seeds/$1")
}

if ! command -v clang >/dev/null || ! command -v python3 >/dev/null; then
    skip "fuzzing" "no clang or no python3"
    finish
fi
check "the targets build" build
check "seeds" seeds
for source in "$BRASA_SOURCE"/fuzz/fuzz_*.c; do
    target=$(basename "$source" .c)
    check "$target" fuzz "${target#fuzz_}"
done
finish
