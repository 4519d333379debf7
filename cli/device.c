/* device.c - see device.h. */
#include "device.h"

#include "device/device.h"

/* The library's texts begin with the option's name. */
static int refuse(const brasa_context *ctx, brasa_status status)
{
    const char *text = brasa_context_error(ctx);
    return status == BRASA_BAD_ARGUMENT ? complain(MISUSED, "--%s", text) : complain(FAILED, "%s", text);
}

int device_use(brasa_context *ctx, const char *name)
{
    const brasa_status status = name ? brasa_context_use(ctx, name) : BRASA_OK;
    return status == BRASA_OK ? DONE : refuse(ctx, status);
}

int device_precision(brasa_context *ctx, const char *word, int32_t *out)
{
    const brasa_status status = precision_read(ctx, word, out);
    return status == BRASA_OK ? DONE : refuse(ctx, status);
}

place_text print_place(const brasa_context *ctx, int32_t precision)
{
    place_text t;
    const bool several = ctx->device->precisions != 1u << BRASA_F32;
    snprintf(t.text, sizeof t.text, "%s%s%s", ctx->device->where, several ? ", " : "",
             several ? precision_word(precision) : "");
    return t;
}

void place_json(json *j, const brasa_context *ctx, int32_t precision)
{
    json_text(j, "device", ctx->device->name);
    json_text(j, "precision", precision_word(precision));
    if (ctx->device->about[0])
        json_text(j, "device_about", ctx->device->about);
}

void device_tell(brasa_context *ctx)
{
    device *d = ctx->device;
    if (!d->warning[0])
        return;
    complain(DONE, "note: %s", d->warning);
    d->warning[0] = '\0';
}
