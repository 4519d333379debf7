# find_package(brasa) gives brasa::brasa (shared) and brasa::brasa_static.
include(${CMAKE_CURRENT_LIST_DIR}/brasaTargets.cmake)
