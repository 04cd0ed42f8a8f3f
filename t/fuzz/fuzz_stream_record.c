/* fuzz_stream_record.c - any bytes as a record of a stream.
 *
 * The first byte chooses one of a few pairs of formats, the writer's and the reader's, and a number
 * of records; what follows is a record of the writer's, of which the id is ignored, and whose body
 * is then read as that of as many records.  What is read needs no more memory
 * than it is allowed, and with the reader's format can be written, read and written as the same
 * bytes.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libstream/convert.h"

#define BUDGET 65536

static const char *const texts[] = {
    /* trees, strings, numbers that may be absent */
    "flux-format 1 pointers 8\n"
    "record node size 48 align 8\n"
    "field n u16 at 0\n"
    "field yes bool at 2\n"
    "field x f32[n] at 8\n"
    "field name string at 16\n"
    "field note string optional at 24\n"
    "field mass f64 optional at 32\n"
    "field next *node at 40\n",
    /* records in arrays, 32 bits */
    "flux-format 1 pointers 4\n"
    "record word size 12 align 4\n"
    "field text string at 0\n"
    "field n i8 at 4\n"
    "field data bytes[n] optional at 8\n"
    "record node size 40 align 4\n"
    "field n i32 at 0\n"
    "field m u8 at 4\n"
    "field words word[n] at 8\n"
    "field more *word[2] at 12\n"
    "field names string[m][n] at 20\n"
    "field x u16[2] at 24\n"
    "field at word at 28\n",
    /* no pointers */
    "flux-format 1 pointers 8\n"
    "record node size 16 align 4\n"
    "field n u32 at 0\n"
    "field x u32[2] at 4\n"
    "field yes bool[3] at 12\n",
    /* what later versions want of the first two */
    "flux-format 1 pointers 8\n"
    "record node size 32 align 8\n"
    "field name string at 0\n"
    "attr default \"none\"\n"
    "field mass f64 at 8\n"
    "attr default \"1.5\"\n"
    "field next *node at 16\n"
    "field n u64 at 24\n",
    "flux-format 1 pointers 8\n"
    "record word size 24 align 8\n"
    "field n i64 at 0\n"
    "field data bytes[n] optional at 8\n"
    "field text string at 16\n"
    "record node size 56 align 8\n"
    "field more word[2] at 0\n"
    "field at *word at 48\n",
};
static const struct {
    int from, to; /* to: -1 for the writer's, of this host */
} pairs[] = {{0, -1}, {1, -1}, {2, -1}, {0, 3}, {1, 4}};
#define PAIRS (sizeof(pairs) / sizeof(pairs[0]))

static stream_format_t *parse(int i)
{
    stream_format_t *f = stream_format_parse(texts[i], strlen(texts[i]), NULL);

    MUST(f != NULL);
    return f;
}

/* What was read can be written, and that read and written again. */
static void check_again(const stream_format_t *f, const void *rec)
{
    stream_convert_t *c = stream_convert_create(f, STREAM_NATIVE, f, NULL);
    uint8_t *one = NULL, *two = NULL;
    size_t len = 0, len2 = 0;
    void *out;

    MUST(c && stream_encode_size(f, rec, &len, NULL) == 0);
    MUST((one = malloc(len)) && (two = malloc(len)));
    MUST(stream_encode(f, rec, one, len, &len, NULL) == 0);
    out = stream_convert(c, one + STREAM_HEADER, len - STREAM_HEADER, 16 * BUDGET, 0, NULL);
    MUST(out && stream_encode(f, out, two, len, &len2, NULL) == 0);
    MUST(len == len2 && memcmp(one, two, len) == 0);
    free(out);
    free(one);
    free(two);
    stream_convert_destroy(c);
}

/* The same bytes as the value of a variable of `n` records. */
static void check_array(const stream_convert_t *c, const stream_format_t *f, uint64_t n,
                        const void *body, size_t len)
{
    errmsg_t err = {""};
    void *out = stream_convert_array(c, n, body, len, BUDGET, 0, &err);
    size_t need, need2;
    uint8_t *one;

    if (!out) {
        MUST((errno == EPROTO || errno == EMSGSIZE || errno == E2BIG) && err.text[0]);
        return;
    }
    MUST(stream_convert_array_check(c, n, body, len, &need, NULL) == 0 && need <= BUDGET);
    MUST(stream_encode_array_size(f, out, n, &need, NULL) == 0 && (one = malloc(need + 1)));
    MUST(stream_encode_array(f, out, n, one, need, &need2, NULL) == 0 && need == need2);
    free(one);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stream_format_t *from[PAIRS], *to[PAIRS];
    errmsg_t err = {""};
    struct stream_header head;
    stream_convert_t *c;
    size_t which, need;
    uint8_t *buf;
    void *out;

    for (size_t i = 0; !to[PAIRS - 1] && i < PAIRS; i++) {
        from[i] = parse(pairs[i].from);
        to[i] = pairs[i].to < 0 ? stream_format_native(from[i], NULL) : parse(pairs[i].to);
        MUST(to[i] != NULL);
    }
    if (size < 1)
        return 0;
    which = data[0] % PAIRS;
    MUST((buf = malloc(size)) != NULL);
    memcpy(buf, data + 1, size - 1); /* aligned */
    if (stream_encode_open(buf, size - 1, &head, &err) < 0) {
        MUST(errno == EPROTO && err.text[0]);
        free(buf);
        return 0;
    }
    MUST((c = stream_convert_create(from[which], head.order, to[which], NULL)) != NULL);
    out = stream_convert(c, head.body, head.len, BUDGET, 0, &err);
    if (out) {
        MUST(stream_convert_check(c, head.body, head.len, &need, NULL) == 0 && need <= BUDGET);
        check_again(to[which], out);
        free(out);
        MUST((out = stream_convert(c, head.body, head.len, BUDGET, STREAM_BORROW, &err)) != NULL);
        free(out);
    } else {
        MUST((errno == EPROTO || errno == EMSGSIZE || errno == E2BIG) && err.text[0]);
    }
    check_array(c, to[which], data[0] / PAIRS, head.body, head.len);
    stream_convert_destroy(c);
    free(buf);
    return 0;
}
