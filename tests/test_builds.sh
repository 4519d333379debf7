#!/bin/bash
# Other ways to build: with clang, and without OpenMP, oneDNN and what reads pictures. Hardly optimized: what counts is
# that it compiles without a warning and that the tests run.
. "$(dirname "$0")/test.sh"

launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)

configure() { # folder, then cmake's options; the GPU's kernels are nvcc's business
    local folder=$work/$1
    shift
    cmake -S "$BRASA_SOURCE" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Plain -DBRASA_CUDA=OFF "${launcher[@]}" "$@"
}

build() { # folder, then targets
    cmake --build "$work/$1" --target "${@:2}"
}

# All that is compiled; of what is linked, the program and a test.
clang_compiles() {
    local objects
    configure clang -DCMAKE_C_COMPILER=clang &&
        mapfile -t objects < <(ninja -C "$work/clang" -t targets all | sed -n 's/^\(.*\.o\): C_COMPILER_.*/\1/p') &&
        [ ${#objects[@]} -gt 100 ] && build clang "${objects[@]}" brasa_program test_core
}

# The program, and the tests that are run below: that the others compile is clang's business.
bare_compiles() {
    configure bare -DCMAKE_C_FLAGS=-O1 -DBRASA_OPENMP=OFF -DBRASA_ONEDNN=OFF -DBRASA_DATA_LIBRARIES=OFF &&
        build bare brasa brasa_program test_core test_data_sets test_data_pictures test_ops test_winograd
}

if command -v clang >/dev/null; then
    check "clang compiles it without a warning" clang_compiles
    check "clang's build passes the core tests" "$work/clang/tests/test_core"
else
    skip "clang compiles it without a warning" "no clang"
fi
check "it compiles without OpenMP, oneDNN and what reads pictures" bare_compiles
check "that build passes the core tests" "$work/bare/tests/test_core"
check "reads data that needs no library" "$work/bare/tests/test_data_sets"
check "and says what it lacks for pictures" "$work/bare/tests/test_data_pictures"
check "and proves its kernels" "$work/bare/tests/test_ops" kernels
check "and the errors of its convolutions with fewer products" "$work/bare/tests/test_winograd"
finish
