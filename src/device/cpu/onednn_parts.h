/* onednn_parts.h - between the files of onednn.h, which alone include the library. */
#ifndef DEVICE_CPU_ONEDNN_PARTS_H
#define DEVICE_CPU_ONEDNN_PARTS_H

#include "device/cpu/onednn.h"

#include <oneapi/dnnl/dnnl.h>

/* --- onednn_describe.c: tensors and layers in the library's words, and back ---------------------------------- */

/* What functions take as a tensor's description. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t md_pointer;
#else
typedef const dnnl_memory_desc_t *md_pointer;
#endif

/* The layout that a description stands for; false where Brasa has no word for it. */
bool onednn_layout_of(md_pointer md, const shape *s, int groups, layout *out);

/* Whether the library applies the activation; else it is a pass of its own. */
bool onednn_fuses_relu(const onednn_layer *l);

/* A layer's primitive descriptor. */
dnnl_status_t onednn_describe(const onednn_layer *l, dnnl_engine_t engine, dnnl_primitive_desc_t *pd);

#endif
