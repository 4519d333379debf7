#!/bin/bash
# The software GPU and its libraries under AddressSanitizer and UndefinedBehaviorSanitizer, which the build with CUDA does
# without; and what clang says of them, and a compiler without OpenMP.
. "$(dirname "$0")/test.sh"

kernels=$BRASA_BUILD/tests/CMakeFiles/softgpu_kernels.dir/softgpu/kernels.cu.o
headers=$(sed -n 's/^CUDAToolkit_INCLUDE_DIR:PATH=//p; s/^cudnn_include:PATH=/ /p' "$BRASA_BUILD/CMakeCache.txt" | tr -d '\n')
cd "$BRASA_SOURCE/tests" || exit 1
usual=(-std=c11 -Wall -Wextra -Werror -Wshadow -Wno-missing-field-initializers -I../include -I../src -I.)
for folder in $headers; do usual+=(-isystem "$folder"); done
sanitize=(-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -Wno-unknown-pragmas)
mapfile -t runtime < <(ls softgpu/*.c | grep -vE 'softgpu/(cudnn|cublaslt|product)')

compile() { # output, then words
    "${CC:-cc}" "${usual[@]}" "${sanitize[@]}" -o "$work/$1" "${@:2}" -lm -ldl -lpthread
}

each_with() { # a compiler and its words
    local file
    for file in softgpu/*.c; do "$@" "${usual[@]}" -c -o /dev/null "$file" || return 1; done
}

if [ ! -e "$kernels" ]; then
    skip "the software GPU is sanitized" "built without CUDA 13"
    finish
fi
if command -v clang >/dev/null; then
    check "clang compiles it without a warning" each_with clang -O1 -Wno-pass-failed -fopenmp-simd
else
    skip "clang compiles it without a warning" "no clang"
fi
check "the runtime compiles" compile kernels test_softgpu_kernels.c -DTEST_SOFTGPU "${runtime[@]}" "$kernels" -lstdc++
check "kernels run sanitized" "$work/kernels"
for library in cudnn cublaslt; do
    check "$library compiles" compile $library.so -shared -fPIC softgpu/$library*.c softgpu/product.c
done
for name in cudnn cudnn_refuses cublaslt; do
    check "test_softgpu_$name compiles" compile $name test_softgpu_$name.c -rdynamic "-DTEST_SOFT_CUDNN=\"$work/cudnn.so\"" \
        "-DTEST_SOFT_CUBLASLT=\"$work/cublaslt.so\""
    check "$name runs sanitized" "$work/$name"
done
finish
