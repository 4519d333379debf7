# What `cmake --install` puts where. All paths inside are relative to the prefix, so that it may be moved.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/brasa)
set(made ${CMAKE_CURRENT_BINARY_DIR}/package)

install(TARGETS brasa brasa_static EXPORT brasa)
install(TARGETS brasa_program)
if(cuda) # where src/device/device.c looks for it
  install(TARGETS brasa_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/brasa)
endif()
install(FILES include/brasa.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/brasa/examples
        FILES_MATCHING PATTERN *.c)
install(DIRECTORY src/models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/brasa/models FILES_MATCHING PATTERN *.net)
install(DIRECTORY lab/peers/ DESTINATION ${CMAKE_INSTALL_DATADIR}/brasa/lab/peers
        FILES_MATCHING PATTERN *.py PATTERN *.lock PATTERN *.md)

install(EXPORT brasa FILE brasaTargets.cmake NAMESPACE brasa:: DESTINATION ${package})
write_basic_package_version_file(${made}/brasaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/brasaConfig.cmake ${made}/brasaConfigVersion.cmake DESTINATION ${package})

# pkg-config finds the prefix from where the file lies.
file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" up "${up}")
set(static_libs "-pthread -lm")
if(OpenMP_C_FOUND)
  set(static_libs "${OpenMP_C_FLAGS} ${static_libs}")
endif()
foreach(library ${formats} ${CMAKE_DL_LIBS})
  string(APPEND static_libs " -l${library}")
endforeach()
if(onednn)
  list(JOIN onednn_flags " " flags)
  string(APPEND static_libs " ${flags}")
endif()
configure_file(cmake/brasa.pc.in ${made}/brasa.pc @ONLY)
install(FILES ${made}/brasa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
