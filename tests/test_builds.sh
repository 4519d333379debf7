#!/bin/bash
# Other ways to build: with clang, and without OpenMP, oneDNN and what reads pictures. Hardly optimized: what counts is
# that it compiles without a warning and that the tests run.
. "$(dirname "$0")/test.sh"

launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)

build() { # folder, then cmake's options; the GPU's kernels are nvcc's business
    local folder=$work/$1
    shift
    cmake -S "$BRASA_SOURCE" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Plain -DBRASA_CUDA=OFF "${launcher[@]}" "$@" &&
        cmake --build "$folder"
}

if command -v clang >/dev/null; then
    check "clang compiles it without a warning" build clang -DCMAKE_C_COMPILER=clang
    check "clang's build passes the core tests" "$work/clang/tests/test_core"
else
    skip "clang compiles it without a warning" "no clang"
fi
check "it compiles without OpenMP, oneDNN and what reads pictures" \
    build bare -DCMAKE_C_FLAGS=-O1 -DBRASA_OPENMP=OFF -DBRASA_ONEDNN=OFF -DBRASA_DATA_LIBRARIES=OFF
check "that build passes the core tests" "$work/bare/tests/test_core"
check "reads data that needs no library" "$work/bare/tests/test_data_sets"
check "and says what it lacks for pictures" "$work/bare/tests/test_data_pictures"
check "and proves its kernels" "$work/bare/tests/test_ops" kernels
check "and the errors of its convolutions with fewer products" "$work/bare/tests/test_winograd"
finish
