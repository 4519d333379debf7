# brasa_cuda.so, the backend for NVIDIA GPUs: made where CUDA's compiler and the headers of cuDNN and cuBLASLt are, opened at
# run time. The CUDA runtime is linked into it; the driver, cuDNN and cuBLASLt are looked for when a device is opened.
set(cuda OFF)
if(BRASA_SANITIZE OR CMAKE_CROSSCOMPILING) # both are about the CPU's code
  set(BRASA_CUDA OFF)
endif()
if(BRASA_CUDA)
  include(CheckLanguage)
  find_program(nvcc nvcc HINTS /usr/local/cuda/bin ENV CUDA_PATH PATH_SUFFIXES bin)
  if(nvcc AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${nvcc}) # check_language tries it: one that does not go with this C compiler is no CUDA compiler
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    # The GPU of this machine; where there is none, what Ampere and all later ones can run, and Hopper's own.
    if(EXISTS /dev/nvidia0 AND CMAKE_VERSION VERSION_GREATER_EQUAL 3.24)
      set(CMAKE_CUDA_ARCHITECTURES native)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90)
    endif()
  endif()
  check_language(CUDA)
endif()
if(CMAKE_CUDA_COMPILER AND BRASA_CUDA)
  enable_language(CUDA)
  find_package(CUDAToolkit QUIET)
  find_path(cudnn_include cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(cublaslt_include cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS}) # distributions have it in a package of its own
endif()
if(cudnn_include AND cublaslt_include AND CUDAToolkit_FOUND
   AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.1) # C++20, Hopper, large parameters
  set(cuda ON)
  message(STATUS "brasa: CUDA ${CUDAToolkit_VERSION}")
  file(GLOB cuda_sources CONFIGURE_DEPENDS src/device/cuda/*.c src/device/cuda/*.cu src/ops/*/*_cuda.cu src/ops/*/*_cudnn.c
       src/ops/*/*_cublaslt.c)
  # What the kernels use of the program's own code, once more: it keeps nothing.
  file(GLOB cuda_core CONFIGURE_DEPENDS src/core/context.c src/core/options.c src/core/layout.c src/core/shape.c src/core/storage.c
       src/core/pool.c
       src/core/replace.c src/core/cache.c src/core/isa.c src/core/threads.c src/core/cgroup.c
       src/core/shared.c src/core/json_scan.c src/core/numeric.c src/graph/precision.c src/tune/*.c)
  add_library(brasa_cuda MODULE ${cuda_sources} ${cuda_core})
  set_target_properties(brasa_cuda PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
                        CUDA_STANDARD 20 CUDA_RUNTIME_LIBRARY Static LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  target_include_directories(brasa_cuda PRIVATE include src ${CUDAToolkit_INCLUDE_DIRS} ${cudnn_include}
                             ${cublaslt_include})
  target_compile_definitions(brasa_cuda PRIVATE BRASA_VERSION="${PROJECT_VERSION}")
  target_compile_options(brasa_cuda PRIVATE $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Werror
                         -Wno-missing-field-initializers>
                         $<$<COMPILE_LANGUAGE:CUDA>:--fmad=true -Xcompiler=-Wall,-Wno-missing-field-initializers>)
  target_link_options(brasa_cuda PRIVATE -Wl,--no-undefined)
  target_link_libraries(brasa_cuda PRIVATE CUDA::cudart_static m ${CMAKE_DL_LIBS})
  if(OpenMP_C_FOUND)
    target_link_libraries(brasa_cuda PRIVATE OpenMP::OpenMP_C)
  else()
    target_compile_options(brasa_cuda PRIVATE $<$<COMPILE_LANGUAGE:C>:-Wno-unknown-pragmas>)
  endif()
elseif(BRASA_CUDA)
  message(STATUS "brasa: no CUDA 12.1 compiler with the headers of cuDNN and cuBLASLt: no backend for NVIDIA GPUs")
endif()
