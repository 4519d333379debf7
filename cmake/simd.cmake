# Files named *_simd.c are compiled once for each instruction set: a small file in the build folder includes the source
# with SIMD_AVX2 or SIMD_AVX512 set (see src/device/cpu/simd.h), and gets that set's flags. The choice is made at run
# time. Elsewhere than on x86-64 the plain-C kernels do the work; so they do for parsers that are fuzzed, where clang would
# spend minutes on the sanitized copies.
file(GLOB simd_sources CONFIGURE_DEPENDS src/ops/*/*_simd.c)
list(FILTER sources EXCLUDE REGEX "_simd\\.c$")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND NOT BRASA_FUZZ)
  set(flags_AVX2 -mavx2 -mfma -ffp-contract=fast)
  set(flags_AVX512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512 -ffp-contract=fast)
  foreach(source ${simd_sources})
    get_filename_component(name ${source} NAME_WE)
    foreach(isa AVX2 AVX512)
      set(copy ${CMAKE_CURRENT_BINARY_DIR}/simd/${name}_${isa}.c)
      file(CONFIGURE OUTPUT ${copy} CONTENT "#define SIMD_${isa}\n#include \"${source}\"\n")
      set_source_files_properties(${copy} PROPERTIES COMPILE_OPTIONS "${flags_${isa}}")
      list(APPEND sources ${copy})
    endforeach()
  endforeach()
  target_compile_definitions(brasa_options INTERFACE BRASA_SIMD)
endif()
