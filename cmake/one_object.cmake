# one_object(target output): the objects of a target linked into one, in which only what is meant for others
# (default visibility) is still global. A program that links the static library can then have functions of its own
# called fail or emit, as with the shared one.
function(one_object target output)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_LINKER} -r -o ${output} $<TARGET_OBJECTS:${target}>
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${output}
    DEPENDS ${target} $<TARGET_OBJECTS:${target}>
    COMMENT "Linking ${target} into one object"
    COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties(${output} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()
