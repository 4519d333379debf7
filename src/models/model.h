/* model.h - a network is one file with one function of builder calls, and one row in models.def. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "brasa.h"

#define MODEL(name, classes, c, h, w, summary) void build_##name(brasa_graph *g, int count);
#include "models/models.def"
#undef MODEL

/* netfile.c: a network from a text file. classes 0: as the file says. */
brasa_status netfile_build(brasa_graph *g, const char *path, int classes);
/* The same from a file's text; the path is for messages. */
brasa_status netfile_build_text(brasa_graph *g, const char *path, const char *text, int classes);

#endif
