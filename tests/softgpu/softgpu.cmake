# A GPU in software, where there is none: what stands in for CUDA's runtime and runs the kernels' PTX, and the product's
# own backend, object by object the same, linked to it. What is computed is the same on all machines: nothing is
# contracted that is not in the PTX.
include(CheckCCompilerFlag)
check_c_compiler_flag(-march=native has_native)
set(soft_options $<TARGET_PROPERTY:brasa_options,INTERFACE_COMPILE_OPTIONS> -O3 -ffp-contract=off -fno-math-errno
    -fno-strict-aliasing -fopenmp-simd
    $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed> $<$<BOOL:${has_native}>:-march=native>)

add_library(softgpu SHARED softgpu/fatbin.c softgpu/launch.c softgpu/memory.c softgpu/ptx_lanes.c softgpu/ptx_memory.c
            softgpu/ptx_module.c softgpu/ptx_names.c softgpu/ptx_read.c softgpu/ptx_run.c softgpu/ptx_text.c
            softgpu/queues.c softgpu/runtime.c softgpu/streams.c)
target_link_libraries(softgpu PRIVATE m Threads::Threads ${CMAKE_DL_LIBS} $<$<BOOL:${OpenMP_C_FOUND}>:OpenMP::OpenMP_C>)
target_link_options(softgpu PRIVATE -Wl,--no-undefined,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/softgpu/exports.map)
target_include_directories(softgpu SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_options(softgpu PRIVATE ${soft_options})
set_target_properties(softgpu PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/softgpu
                      LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/softgpu/exports.map)

add_library(soft_cuda MODULE $<TARGET_OBJECTS:brasa_cuda>)
target_link_libraries(soft_cuda PRIVATE softgpu m ${CMAKE_DL_LIBS} $<$<BOOL:${OpenMP_C_FOUND}>:OpenMP::OpenMP_C>)
target_link_options(soft_cuda PRIVATE -Wl,--no-undefined)
set_target_properties(soft_cuda PROPERTIES PREFIX "" OUTPUT_NAME brasa_cuda LINKER_LANGUAGE CUDA CUDA_RUNTIME_LIBRARY None
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/softgpu)

# What stands in for cuDNN and cuBLASLt there, and computes.
file(GLOB soft_cudnn_sources CONFIGURE_DEPENDS softgpu/cudnn*.c)
file(GLOB soft_cublaslt_sources CONFIGURE_DEPENDS softgpu/cublaslt*.c)
foreach(library cudnn cublaslt)
  add_library(soft_${library} MODULE ${soft_${library}_sources} softgpu/product.c)
  target_link_libraries(soft_${library} PRIVATE softgpu m $<$<BOOL:${OpenMP_C_FOUND}>:OpenMP::OpenMP_C>)
  target_link_options(soft_${library} PRIVATE $<TARGET_PROPERTY:brasa_options,INTERFACE_LINK_OPTIONS>)
  target_include_directories(soft_${library} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${cudnn_include})
  target_compile_options(soft_${library} PRIVATE $<TARGET_PROPERTY:brasa_options,INTERFACE_COMPILE_OPTIONS> -O3
                         -ffp-contract=off $<$<BOOL:${has_native}>:-march=native>)
  set_target_properties(soft_${library} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/softgpu)
endforeach()
set_target_properties(soft_cudnn PROPERTIES OUTPUT_NAME libcudnn_soft)
set_target_properties(soft_cublaslt PROPERTIES OUTPUT_NAME libcublasLt_soft)
foreach(name test_softgpu_cublaslt test_softgpu_cudnn test_softgpu_cudnn_refuses) # they have the stream
  target_include_directories(${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${cudnn_include})
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
  add_dependencies(${name} soft_cudnn soft_cublaslt)
  target_compile_definitions(${name} PRIVATE TEST_SOFT_CUDNN="$<TARGET_FILE:soft_cudnn>"
                             TEST_SOFT_CUBLASLT="$<TARGET_FILE:soft_cublaslt>")
endforeach()

# Kernels of its own test; always as PTX.
add_library(softgpu_kernels OBJECT softgpu/kernels.cu)
target_include_directories(softgpu_kernels SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_options(softgpu_kernels PRIVATE -Xcompiler=-Wall,-Wextra,-ffp-contract=off)
set_target_properties(softgpu_kernels PROPERTIES CUDA_ARCHITECTURES 80-virtual CUDA_STANDARD 20)
target_sources(test_softgpu_kernels PRIVATE $<TARGET_OBJECTS:softgpu_kernels>)
target_link_libraries(test_softgpu_kernels PRIVATE softgpu stdc++)
target_include_directories(test_softgpu_kernels SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_definitions(test_softgpu_kernels PRIVATE TEST_SOFTGPU)
set_target_properties(test_softgpu_kernels PROPERTIES CUDA_RUNTIME_LIBRARY None)
