/* fuzz_schema.c - bytes as JSON for a typed description.
 *
 * What decodes must encode, and decode again to the same; what does not must say why.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libschema/schema.h"

struct all {
    const char *s;
    int i;
    int64_t i64;
    uint32_t u32;
    uint64_t u64;
    double d;
    bool b;
    json_t *any;
    json_t *obj;
    json_t *arr;
};
static const struct flux_field all_fields[] = {
    FLUX_FIELD_STR(struct all, s, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_INT(struct all, i, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_I64(struct all, i64, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct all, u32, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U64(struct all, u64, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_DOUBLE(struct all, d, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_BOOL(struct all, b, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_JSON(struct all, any, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_OBJECT(struct all, obj, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_ARRAY(struct all, arr, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema all_schema = FLUX_SCHEMA(struct all, all_fields);

static int same_json(const json_t *a, const json_t *b)
{
    return a == b || json_equal(a, b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct all a = {0};
    struct all b = {0};
    errmsg_t err = {""};
    json_t *owner = flux_schema_decode(&all_schema, (const char *)data, size, &a, &err);
    json_t *again;
    char *text;

    if (!owner) {
        MUST(errno == ENOMEM || (errno == EPROTO && err.text[0]));
        return 0;
    }
    MUST((text = flux_schema_encode(&all_schema, &a)) != NULL);
    MUST((again = flux_schema_decode(&all_schema, text, strlen(text), &b, &err)) != NULL);
    MUST((!a.s && !b.s) || strcmp(a.s, b.s) == 0);
    MUST(a.i == b.i && a.i64 == b.i64 && a.u32 == b.u32 && a.u64 == b.u64 && a.b == b.b);
    MUST(a.d == b.d);
    MUST(same_json(a.any, b.any) && same_json(a.obj, b.obj) && same_json(a.arr, b.arr));
    json_decref(again);
    json_decref(owner);
    free(text);
    return 0;
}
