/* fuzz_streamblock.c - any bytes as a step of a stream; what is read can be written. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libstream/block.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    block_t *b = block_read(data, size, NULL);
    block_t *again;
    unsigned char *buf;

    if (!b)
        return 0;
    MUST((again = block_create()));
    for (size_t i = 0; i < block_count(b); i++) {
        const struct block_var *v = block_at(b, i);

        MUST(v->off <= size && v->len <= size - v->off && block_find(b, v->name) == v);
        MUST(block_add(again, v->name, v->desc, v->desc_len, v->len) == 0);
    }
    MUST((buf = malloc(block_size(again) + 1)));
    block_write(again, buf);
    for (size_t i = 0; i < block_count(b); i++)
        MUST(block_at(again, i)->off == block_at(b, i)->off);
    free(buf);
    block_destroy(again);
    block_destroy(b);
    return 0;
}
