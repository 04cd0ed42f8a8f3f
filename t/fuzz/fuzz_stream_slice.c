/* fuzz_stream_slice.c - text as the slice of an array, of flux stream cat --slice.
 *
 * The first byte is the number of dimensions, and a byte for each is its extent.  What is accepted
 * must be inside the array and not empty, whatever the strides are.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "src/cmd/stream/slice.h"

static void inside(const struct slice *sl, const struct flux_stream_info *info)
{
    uint64_t elems = 1;

    for (unsigned i = 0; i < info->ndims; i++) {
        MUST(sl->start[i] < info->shape[i] && sl->count[i] > 0 && sl->stride[i] > 0);
        MUST((info->shape[i] - 1 - sl->start[i]) / sl->stride[i] >= sl->count[i] - 1);
        elems *= sl->count[i];
    }
    MUST(sl->elems == elems);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct flux_stream_info info = {0};
    struct slice sl;
    errmsg_t err = {""};
    char *text;

    if (size == 0)
        return 0;
    info.ndims = data[0] % (FLUX_STREAM_DIMS_MAX + 1);
    data++, size--;
    if (size < info.ndims)
        return 0;
    for (unsigned i = 0; i < info.ndims; i++) /* at most 2^64 - 1 elements in all */
        info.shape[i] = info.ndims == 1 && data[i] == 'm' ? UINT64_MAX : data[i] & 15;
    data += info.ndims, size -= info.ndims;
    MUST((text = strndup((const char *)data, size)) != NULL);
    if (slice_parse(&sl, text, &info, &err) == 0)
        inside(&sl, &info);
    else
        MUST((errno == EINVAL || errno == ERANGE) && err.text[0]);
    free(text);
    return 0;
}
