# What a program and a backend's library must have in common: the headers that both are compiled with, as a short text. The
# library of another build is refused (src/device/device.c) where one of them has changed.
file(GLOB_RECURSE shared_headers CONFIGURE_DEPENDS include/*.h src/core/*.h src/tune/*.h src/graph/*.h src/ops/*.h src/ops/ops.def
     src/device/device.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shared_headers})
set(shared "")
foreach(header ${shared_headers})
  file(SHA256 ${header} hash)
  string(APPEND shared "${hash}")
endforeach()
string(SHA256 shared "${shared}")
string(SUBSTRING "${shared}" 0 16 shared)
set_source_files_properties(src/device/device.c src/device/cuda/cuda.c PROPERTIES
                            COMPILE_DEFINITIONS BRASA_SHARED="${shared}")
