#!/bin/bash
# Installs into a folder, moves it, and builds a small program against it in every supported way.
. "$(dirname "$0")/test.sh"
: "${CC:=cc}"

install() {
    cmake --install "$BRASA_BUILD" --prefix "$work/before" && mv "$work/before" "$prefix"
}

with_pkg_config() { # program, then options of pkg-config and of the compiler
    local program=$1 static=${2:-}
    # shellcheck disable=SC2046,SC2086
    $CC -std=c11 -Wall -Wextra -Wpedantic -Werror $static -o "$program" "$work/small.c" \
        $(pkg-config ${static:+--static} --cflags --libs brasa)
}

with_cmake() {
    cmake -S "$work/project" -B "$work/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" &&
        cmake --build "$work/project/build"
}

as_cxx() {
    echo '#include <brasa.h>' >"$work/header.cc"
    c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "-I$prefix/include" "$work/header.cc"
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
    int ok = brasa_session_new(g, &(brasa_session_options){.optimizer = "sgd lr=0.1"}, &s) == BRASA_OK;
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
if command -v c++ >/dev/null; then
    check "the header is good C++ too" as_cxx
else
    skip "the header is good C++ too" "no C++ compiler"
fi
finish
