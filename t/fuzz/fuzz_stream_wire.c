/* fuzz_stream_wire.c - bytes as the control messages of streams: the requests and responses of the
 * service, the event stream.switch, and the elements of their arrays.
 *
 * The first byte chooses the kind, the rest is JSON.  What decodes must encode, and decode again to
 * the same; what does not must say why.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libstream/stream_wire.h"

/* Inputs of the corpus have the number of the kind, a letter from 'a' on, as their first byte: new
 * kinds go to the end. */
static const struct flux_schema *const kinds[] = {
    &stream_write_schema,  &stream_written_schema, &stream_count_schema,      &stream_define_schema,
    &stream_text_schema,   &stream_read_schema,    &stream_ask_format_schema, &stream_took_schema,
    &stream_name_schema,   &stream_readers_schema, &stream_policy_schema,     &stream_list_schema,
    &stream_pause_schema,  &stream_attach_schema,  &stream_throttle_schema,   &stream_stats_schema,
    &stream_switch_schema, &stream_members_schema};
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Room for what any of them decodes to. */
union any {
    struct stream_write write;
    struct stream_written written;
    struct stream_demand demand;
    struct stream_queue queue;
    struct stream_count count;
    struct stream_define define;
    struct stream_ask_format ask_format;
    struct stream_name name;
    struct stream_pause pause;
    struct stream_throttle throttle;
    struct stream_attach attach;
    struct stream_text text;
    struct stream_read read;
    struct stream_took took;
    struct stream_policy policy;
    struct stream_switch onoff;
    struct stream_reader reader;
    struct stream_readers readers;
    struct stream_member member;
    struct stream_gone gone;
    struct stream_members members;
    struct stream_item item;
    struct stream_list list;
    struct stream_stats stats;
};

/* Each method must have a kind for its request, and one for its response. */
static int known(const struct flux_schema *schema)
{
    size_t i = 0;

    while (schema && i < NKINDS && kinds[i] != schema)
        i++;
    return !schema || i < NKINDS;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    for (const struct flux_method *m = stream_methods; m->topic; m++)
        MUST(known(m->request) && known(m->response));
    return 0;
}

static void same_again(const struct flux_schema *schema, const union any *in)
{
    union any out = {0};
    errmsg_t err = {""};
    char *first, *second;
    json_t *owner;

    MUST((first = flux_schema_encode(schema, in)) != NULL);
    MUST((owner = flux_schema_decode(schema, first, strlen(first), &out, &err)) != NULL);
    MUST((second = flux_schema_encode(schema, &out)) != NULL);
    MUST(strcmp(first, second) == 0);
    json_decref(owner);
    free(first);
    free(second);
}

/* The arrays of a message whose elements have a description. */
static void elements(const struct flux_schema *schema, const union any *in)
{
    for (const struct flux_field *f = schema->fields; f->name; f++) {
        const json_t *array, *one;
        size_t i;

        if (!f->of)
            continue;
        memcpy(&array, (const char *)in + f->offset, sizeof(array));
        json_array_foreach(array, i, one)
        {
            union any out = {0};
            errmsg_t err = {""};

            if (flux_schema_decode_json(f->of, one, &out, &err) < 0)
                MUST(errno == EPROTO && err.text[0]);
            else
                same_again(f->of, &out);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct flux_schema *schema;
    union any in = {0};
    errmsg_t err = {""};
    json_t *owner;

    if (size == 0)
        return 0;
    schema = kinds[(uint8_t)(data[0] - 'a') % NKINDS];
    owner = flux_schema_decode(schema, (const char *)data + 1, size - 1, &in, &err);
    if (!owner) {
        MUST(errno == ENOMEM || (errno == EPROTO && err.text[0]));
        return 0;
    }
    same_again(schema, &in);
    elements(schema, &in);
    json_decref(owner);
    return 0;
}
