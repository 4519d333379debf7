#!/bin/bash
# Installs into a folder, moves it, and builds a small program against it in every supported way; then does what the
# README says, to the letter.
. "$(dirname "$0")/test.sh"
: "${CC:=cc}"

install() {
    cmake --install "$BRASA_BUILD" --prefix "$work/before" && mv "$work/before" "$prefix"
}

with_pkg_config() { # program, then options of pkg-config and of the compiler
    local program=$1 static=${2:-}
    # shellcheck disable=SC2046,SC2086
    $CC -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$program" "$work/small.c" \
        $(pkg-config ${static:+--static} --cflags --libs brasa | sed "${static:+s/-lbrasa/-l:libbrasa.a/}")
}

with_cmake() {
    cmake -S "$work/project" -B "$work/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" &&
        cmake --build "$work/project/build"
}

# Whether there is a GPU or not, the library is opened.
finds_backend() {
    local said
    said=$(cd / && PATH=$prefix/bin:$PATH brasa doctor)
    [[ $said == *CUDA* && $said != *brasa_cuda.so* ]]
}

as_cxx() {
    echo '#include <brasa.h>' >"$work/header.cc"
    c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "-I$prefix/include" "$work/header.cc"
}

# The n-th block of this language in the README's section on the first program.
readme_block() { # language n
    awk -v start="\`\`\`$1" -v wanted="$2" '/^## / { section = /first C program/ }
        /^```$/ { inside = 0 }
        inside && count == wanted
        section && $0 == start { inside = 1; count++ }' "$BRASA_SOURCE/README.md"
}

# As somebody would type it who has nothing set up; only the folder that is installed from is this build's.
as_told() { # folder, file of commands
    [ -s "$2" ] && (cd "$1" && env -u LD_LIBRARY_PATH -u PKG_CONFIG_PATH HOME="$work/home" bash -eu "$2")
}

# It has functions of the names that the library uses inside, which must not meet them.
cat >"$work/small.c" <<'END'
#include <brasa.h>
#include <stdio.h>
int emit(void);
int emit(void) { return 7; }
int main(void)
{
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_classify(brasa_relu(brasa_dense(brasa_input_vector(g, "x", 4), 8)), 3);
    brasa_session *s = NULL;
    const float x[4] = {1, 2, 3, 4};
    const int32_t label = 1;
    float first = 0, last = 0;
    const brasa_session_options o = {.size = sizeof o, .optimizer = "sgd lr=0.1"};
    int ok = brasa_session_new(g, &o, &s) == BRASA_OK;
    for (int i = 0; ok && i < 20; i++)
        ok = brasa_train_step(s, x, &label, i ? &last : &first) == BRASA_OK;
    printf("%s: loss %.4f, then %.4f %s\n", brasa_version(), first, last, brasa_graph_error(g));
    brasa_session_free(s);
    brasa_graph_free(g);
    return ok && last < first && emit() == 7 ? 0 : 1;
}
END
mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(small C)
find_package(brasa 0.1 REQUIRED)
add_executable(small ../small.c)
target_link_libraries(small brasa::brasa)
add_executable(small_static ../small.c)
target_link_libraries(small_static brasa::brasa_static)
END

prefix=$work/after
check "cmake --install" install
libdir=$(dirname "$(find "$prefix" -name libbrasa.so)")
export LD_LIBRARY_PATH=$libdir PKG_CONFIG_PATH=$libdir/pkgconfig

check "the program runs" "$prefix/bin/brasa" --version
if [ -e "$BRASA_BUILD/brasa_cuda.so" ]; then
    check "the backend for GPUs is found, also by a program on the PATH" finds_backend
else
    skip "the backend for GPUs is found" "this build has none"
fi
if command -v pkg-config >/dev/null; then
    check "pkg-config, shared: builds" with_pkg_config "$work/small"
    check "pkg-config, shared: runs" "$work/small"
    check "pkg-config, static: builds" with_pkg_config "$work/small_static" -static
    check "pkg-config, static: runs" "$work/small_static"
else
    skip "pkg-config" "not installed"
fi
check "find_package: builds" with_cmake
check "find_package, shared: runs" "$work/project/build/small"
check "find_package, static: runs" "$work/project/build/small_static"

mkdir -p "$work/home/project"
readme_block sh 1 | sed 's|^./run install|cmake --install "$BRASA_BUILD" --prefix|' >"$work/told.sh"
readme_block sh 2 >"$work/told_cmake.sh"
readme_block cmake 1 >"$work/home/project/CMakeLists.txt"
cp "$BRASA_SOURCE/examples/first.c" "$work/home/project"
export BRASA_BUILD
if command -v pkg-config >/dev/null; then
    check "the README's lines build and run the first program" as_told "$BRASA_SOURCE" "$work/told.sh"
else
    cmake --install "$BRASA_BUILD" --prefix "$work/home/brasa" >/dev/null
fi
check "the README's CMakeLists.txt does too" as_told "$work/home/project" "$work/told_cmake.sh"
if command -v c++ >/dev/null; then
    check "the header is good C++ too" as_cxx
else
    skip "the header is good C++ too" "no C++ compiler"
fi
finish
