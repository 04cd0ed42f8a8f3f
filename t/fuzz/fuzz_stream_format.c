/* fuzz_stream_format.c - any text as the format of a stream, and as a sketch of one.
 *
 * What is accepted is printed as it was, has a layout for this host with the same fields, and
 * records of it can be converted into that.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libstream/convert.h"

/* What is accepted as a sketch has a canonical text, which is a sketch of the same format. */
static void check_sketch(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    errmsg_t err = {""};
    stream_format_t *f, *again;

    MUST(text);
    if (!(f = stream_format_sketch(text, &err)))
        MUST((errno == EINVAL || errno == E2BIG) && err.text[0]);
    else {
        const char *own = stream_format_text(f);

        MUST((again = stream_format_parse(own, strlen(own), NULL)) != NULL);
        stream_format_destroy(again);
        MUST((again = stream_format_sketch(own, NULL)) != NULL);
        MUST(strcmp(stream_format_text(again), own) == 0);
        stream_format_destroy(again);
    }
    stream_format_destroy(f);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    stream_format_t *f, *native, *again;
    stream_convert_t *c;

    check_sketch(data, size);
    if (!(f = stream_format_parse((const char *)data, size, &err))) {
        MUST(errno == EPROTO && err.text[0]);
        return 0;
    }
    MUST(strlen(stream_format_text(f)) == size);
    MUST(memcmp(stream_format_text(f), data, size) == 0);
    if (!(native = stream_format_native(f, &err))) { /* holes may make it too large */
        MUST(errno == E2BIG);
        stream_format_destroy(f);
        return 0;
    }
    MUST(stream_format_count(native) == stream_format_count(f));
    MUST((again = stream_format_native(native, NULL)) != NULL);
    MUST(strcmp(stream_format_text(again), stream_format_text(native)) == 0);
    MUST((c = stream_convert_create(f, STREAM_BIG, native, NULL)) != NULL);
    stream_convert_destroy(c);
    stream_format_destroy(again);
    stream_format_destroy(native);
    stream_format_destroy(f);
    return 0;
}
