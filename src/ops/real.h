/* real.h - one source of a reference kernel, compiled for float and for double.
 *
 * An op's file holds its kernels between `#ifdef REAL` and `#else`, and includes this file with REAL_SOURCE set to
 * its own path. It is then read twice: with REAL as float, where NAME(f) is f_f32, and with REAL as double, where
 * NAME(f) is f_f64. REFERENCE(op, f) makes the two rows of the kernel list; ELEMENTWISE(op, f) does so for a kernel
 * that runs over what is stored, whatever the layout (kernel.any_layout); REFERENCE_(op, f, ...) writes out what else
 * the rows say.
 */
#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

#define REAL    float
#define NAME(f) PASTE(f, _f32)
#include REAL_SOURCE
#undef REAL
#undef NAME

#define REAL    double
#define NAME(f) PASTE(f, _f64)
#include REAL_SOURCE
#undef REAL
#undef NAME

/* clang-format off */
#define REFERENCE_(operation, function, ...)                                                             \
    {.name = #function "_ref", .op = &operation, .real = F32, .run = function##_f32, .any_storage = true, \
     __VA_ARGS__},                                                                                        \
    {.name = #function "_ref", .op = &operation, .real = F64, .run = function##_f64, .any_storage = true, \
     __VA_ARGS__}
/* clang-format on */
#define REFERENCE(operation, function)   REFERENCE_(operation, function, .any_layout = false)
#define ELEMENTWISE(operation, function) REFERENCE_(operation, function, .any_layout = true)
