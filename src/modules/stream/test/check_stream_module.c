/* check_stream_module.c - what the module stream keeps of formats, epochs, steps and queues, and
 * the bounds on its clients. */
#include "config.h"
#include <sodium.h>

#include "libutil/hex.h"
#include "modules/stream/test/bed.h"

static int define(struct bed *b, uint32_t client, const char *name, size_t len)
{
    char *json = malloc(len + 100);
    int at = snprintf(json, 100, "{\"name\":\"%s\",\"format\":\"", name);
    int rc;

    memset(json + at, 'x', len);
    snprintf(json + at + len, 10, "\"}");
    rc = ask(b, "stream.define", client, 0, json);
    free(json);
    return rc;
}

/* All formats together are bounded, and the bytes of a stream are given back at its end. */
START_TEST(formats)
{
    struct bed *b = bed_create();
    const size_t each = 512 * 1024;
    char name[20];

    for (unsigned i = 0; i <= 128; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        ck_assert_int_eq(write_stream(b, i, name, 0, 2), 0);
        ck_assert_int_eq(define(b, i, name, each), i < 128 ? 0 : EBUSY);
    }
    ck_assert_ptr_nonnull(strstr(b->text, "'s128' cannot be defined"));
    ck_assert_int_eq(define(b, 0, "s0", each + 1), E2BIG);
    ck_assert_int_eq(define(b, 0, "s0", each), 0);
    ck_assert_int_eq(define(b, 0, "s0", each - 100), 0);
    ck_assert_int_eq(define(b, 128, "s128", 101), EBUSY);
    ck_assert_int_eq(define(b, 128, "s128", 100), 0);
    disconnect(b, 1);
    ck_assert_int_eq(define(b, 128, "s128", each), 0);
    bed_free(b);
}
END_TEST

static int format_of(struct bed *b, const char *name)
{
    char json[60];

    snprintf(json, sizeof(json), "{\"name\":\"%s\"}", name);
    return ask(b, "stream.format", 9, 0, json);
}

/* Define a format of records with this text, or another one's id; or ask for that. */
static int records_of(struct bed *b, uint32_t client, const char *topic, const char *text,
                      bool other)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    char id[17], json[200];

    crypto_hash_sha256(hash, (const unsigned char *)text, strlen(text));
    hash[7] ^= other;
    *hex_encode(id, hash, 8) = '\0';
    if (strcmp(topic, "stream.define") == 0)
        snprintf(json, sizeof(json), "{\"name\":\"s\",\"format\":\"%s\",\"id\":\"%s\"}", text, id);
    else
        snprintf(json, sizeof(json), "{\"name\":\"s\",\"id\":\"%s\"}", id);
    return ask(b, topic, client, 0, json);
}

/* Formats of records are found by their ids, also those of earlier groups, as long as there is room
 * for them. */
START_TEST(record_formats)
{
    struct bed *b = bed_create();
    char text[20];

    ck_assert_int_eq(write_stream(b, 1, "s", 0, 1), 0);
    read_stream(b, 9, "s", "");
    ck_assert_int_eq(records_of(b, 9, "stream.format", "f0", false), ENODATA);
    ck_assert_int_eq(define(b, 1, "s", 10), 0);
    ck_assert_int_eq(records_of(b, 1, "stream.define", "f0", true), EINVAL);
    ck_assert_ptr_nonnull(strstr(b->text, "does not have the id"));
    for (unsigned i = 0; i <= 256; i++) {
        snprintf(text, sizeof(text), "f%u", i);
        ck_assert_int_eq(records_of(b, 1, "stream.define", text, false), i < 256 ? 0 : EBUSY);
    }
    ck_assert_int_eq(records_of(b, 1, "stream.define", "f7", false), 0);
    ck_assert_int_eq(records_of(b, 9, "stream.format", "f0", false), 0);
    ck_assert_int_eq(records_of(b, 9, "stream.format", "f0", true), ENODATA);
    ck_assert_int_eq(format_of(b, "s"), 0);
    disconnect(b, 1);
    ck_assert_int_eq(write_stream(b, 2, "s", 0, 1), 0);
    ck_assert_int_eq(records_of(b, 2, "stream.define", "f0", false), 0); /* is used again, */
    ck_assert_int_eq(records_of(b, 2, "stream.define", "new", false), 0);
    ck_assert_int_eq(records_of(b, 9, "stream.format", "f0", false), 0);
    ck_assert_int_eq(records_of(b, 9, "stream.format", "f1", false), ENODATA); /* not this one */
    ck_assert_int_eq(records_of(b, 9, "stream.format", "new", false), 0);
    disconnect(b, 2);
    disconnect(b, 9);
    bed_free(b);
}
END_TEST

/* No client takes all room for formats, not even when it inherits the formats of clients that
 * leave. */
START_TEST(format_shares)
{
    struct bed *b = bed_create();
    const size_t each = 512 * 1024;
    char name[20];

    for (unsigned i = 0; i <= 32; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        ck_assert_int_eq(write_stream(b, 2, name, 0, 2), 0);
        ck_assert_int_eq(define(b, 1, name, each), i < 32 ? 0 : EBUSY);
    }
    ck_assert_ptr_nonnull(strstr(b->text, "one client has defined have at most 16777216 bytes"));
    ck_assert_int_eq(define(b, 1, "s0", each), 0); /* replaces a format */
    ck_assert_int_eq(define(b, 1, "s0", each - 10), 0);
    ck_assert_int_eq(define(b, 1, "s32", 11), EBUSY);
    ck_assert_int_eq(define(b, 2, "s32", 11), 0);
    disconnect(b, 1); /* the formats count for client 2, which has no room for the last one, s0 */
    for (unsigned i = 0; i <= 32; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        ck_assert_int_eq(format_of(b, name), i == 0 ? ENODATA : 0);
    }
    ck_assert_int_eq(define(b, 2, "s0", each), EBUSY);
    ck_assert_int_eq(define(b, 1, "s0", each), 0);

    read_stream(b, 3, "s1", "");
    disconnect(b, 2); /* only the readers of s1 are left */
    ck_assert_int_eq(format_of(b, "s1"), 0);
    ck_assert_int_eq(format_of(b, "s2"), ENOENT);
    disconnect(b, 3);
    ck_assert_int_eq(format_of(b, "s1"), ENOENT);
    bed_free(b);
}
END_TEST

/* No client takes all places of writers and readers. */
START_TEST(shares)
{
    struct bed *b = bed_create();

    for (uint32_t i = 0; i < 16384; i++)
        ck_assert_int_eq(write_stream(b, 1, "s", i, 65536), 0);
    ck_assert_int_eq(write_stream(b, 1, "s", 16384, 65536), EBUSY);
    ck_assert_ptr_nonnull(strstr(b->text, "a client has at most 16384 writers and readers"));
    ck_assert_int_eq(write_stream(b, 2, "s", 16384, 65536), 0);
    disconnect(b, 1);
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 65536), 0);
    bed_free(b);
}
END_TEST

/* Return the epoch in the last response to the writer, which the reader finds in its last response
 * as well. */
static unsigned epoch_of(struct bed *b)
{
    const char *at = strstr(b->text, "\"epoch\":");
    unsigned epoch = 0;

    ck_assert_msg(at && sscanf(at, "\"epoch\":%u", &epoch) == 1, "%s", b->text);
    return epoch;
}

/* The epoch of a stream rises when a rank joins again, or a group begins.  Writers that are
 * restarted together have one epoch.  An instance that did not know the earlier epochs learns
 * them. */
START_TEST(epochs)
{
    static const struct {
        uint32_t client; /* client that leaves first; 0: none */
        uint32_t rank;   /* rank that joins then */
        unsigned epoch;
    } joins[] = {{0, 0, 1}, {0, 1, 1}, {0, 2, 1}, {1, 0, 2}, {2, 1, 3}, {1, 0, 4}, {3, 2, 5}};
    struct bed *b = bed_create();
    char json[200];

    read_stream(b, 9, "s", "");
    for (size_t i = 0; i < sizeof(joins) / sizeof(joins[0]); i++) {
        if (joins[i].client > 0)
            disconnect(b, joins[i].client);
        write_stream(b, joins[i].rank + 1, "s", joins[i].rank, 3);
        ck_assert_uint_eq(epoch_of(b), joins[i].epoch);
    }
    snprintf(
        json, sizeof(json),
        "{\"name\":\"s\",\"writer\":%d,\"step\":1,\"need\":1,\"epoch\":20,\"steps\":1,\"bytes\":0,"
        "\"copied\":0,\"dropped\":0,\"queue\":0,\"pinned\":0,\"blocked\":0.0,"
        "\"held\":0.0,\"sent\":0,\"connections\":0,\"queues\":[]}",
        (int)b->peers[b->tag].number);
    ck_assert_int_eq(ask(b, "stream.count", 3, 0, json), 0);
    for (uint32_t client = 1; client <= 3; client++)
        disconnect(b, client);
    write_stream(b, 2, "s", 1, 2);
    ck_assert_uint_eq(epoch_of(b), 21);
    settle(b);
    ck_assert_ptr_nonnull(strstr(b->text, "\"rank\":1,\"epoch\":21"));
    bed_free(b);
}
END_TEST

/* A task that comes when the others of its job have left already begins with their first step. */
START_TEST(late_tasks)
{
    static const struct {
        uint32_t rank, size;
        uint64_t job;
        unsigned step; /* with which it begins; each counts one step */
    } joins[] = {
        {0, 3, 7, 0}, {2, 3, 7, 0}, /* the same job */
        {1, 3, 8, 2},               /* another one, */
        {0, 3, 8, 2}, {1, 3, 8, 4}, /* and a rank of it that has been there: another group */
        {0, 2, 8, 5},               /* another number of writers */
        {1, 2, 0, 6}, {0, 2, 0, 7}, /* nobody knows to what these belong */
    };
    struct bed *b = bed_create();
    char json[300];

    read_stream(b, 9, "s", "");
    for (unsigned i = 0; i < sizeof(joins) / sizeof(joins[0]); i++) {
        write_task(b, joins[i].rank + 1, "s", joins[i].rank, joins[i].size, joins[i].job);
        snprintf(json, sizeof(json), "\"step\":%u,", joins[i].step);
        ck_assert_msg(strstr(b->text, json) != NULL, "%u: %s", i, b->text);
        snprintf(json, sizeof(json),
                 "{\"name\":\"s\",\"writer\":%d,\"step\":%u,\"need\":0,\"epoch\":1,\"steps\":1,"
                 "\"bytes\":0,"
                 "\"copied\":0,\"dropped\":0,\"queue\":0,\"pinned\":0,\"blocked\":0.0,"
                 "\"held\":0.0,\"sent\":0,\"connections\":0,\"queues\":[]}",
                 (int)b->peers[b->tag].number, i + 1);
        ck_assert_int_eq(ask(b, "stream.count", joins[i].rank + 1, 0, json), 0);
        disconnect(b, joins[i].rank + 1);
        settle(b);
    }
    bed_free(b);
}
END_TEST

/* A task that was launched does not join a stream that another job writes.  But what an instance of
 * the module has admitted, since writers of other jobs were there, the next one does not refuse. */
START_TEST(inherited)
{
    struct bed *b = bed_begin(true);

    write_task(b, 1, "s", 0, 2, 7);
    ck_assert_int_eq(write_launched(b, 2, "s", 1, 2, 8, true), 0);
    ck_assert_uint_eq(b->f.nsent, 1);
    fake_respond(&b->f, 0, 0, 0, "{\"streams\":1,\"writers\":2,\"readers\":0,\"opened\":2}");
    write_task(b, 3, "t", 0, 2, 7);
    ck_assert_int_eq(write_launched(b, 4, "t", 1, 2, 8, true), EEXIST);
    bed_free(b);
}
END_TEST

/* Count for the last writer of stream "s", which has `n` entries for a reader. */
static int count_queue(struct bed *b, uint32_t client, uint64_t writer, uint64_t reader,
                       uint64_t queue, unsigned n)
{
    char json[4000];
    int at = snprintf(json, sizeof(json),
                      "{\"name\":\"s\",\"writer\":%" PRIu64
                      ",\"step\":1,\"need\":1,\"epoch\":1,\"steps\":1,"
                      "\"bytes\":0,\"copied\":0,\"dropped\":0,\"queue\":0,\"pinned\":0,"
                      "\"blocked\":0.0,\"held\":0.0,\"sent\":7,\"connections\":2,\"queues\":[",
                      writer);

    for (unsigned i = 0; i < n; i++)
        at += snprintf(json + at, sizeof(json) - (size_t)at,
                       "%s{\"reader\":%" PRIu64 ",\"queue\":%" PRIu64
                       ",\"dropped\":1,\"blocked\":0.5}",
                       i > 0 ? "," : "", reader, queue);
    snprintf(json + at, sizeof(json) - (size_t)at, "]}");
    return ask(b, "stream.count", client, 0, json);
}

/* What the list of readers has for the i-th one. */
static json_int_t reader_int(struct bed *b, size_t i, const char *key)
{
    ask(b, "stream.readers", 99, 0, "{\"name\":\"s\"}");
    settle(b);
    return json_integer_value(
        json_object_get(json_array_get(json_object_get(b->list, "readers"), i), key));
}

/* The queue of a reader is the sum of what its writers have counted last; what it did not get adds
 * up.  A count names at most 16 readers, and of one that is not known nothing is kept. */
START_TEST(queues)
{
    struct bed *b = bed_create();
    uint64_t writer[2];

    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(write_stream(b, i, "s", i, 2), 0);
        writer[i] = b->peers[b->tag].number;
    }
    read_stream(b, 5, "s", "");
    uint64_t reader = b->tag;
    settle(b);
    ck_assert_int_eq(count_queue(b, 0, writer[0], reader, 100, 1), 0);
    ck_assert_int_eq(count_queue(b, 1, writer[1], reader, 30, 1), 0);
    ck_assert_int_eq(reader_int(b, 0, "queue"), 130);
    ck_assert_int_eq(reader_int(b, 0, "queue"), 130);
    ck_assert_int_eq(reader_int(b, 0, "dropped"), 2);
    ck_assert_int_eq(count_queue(b, 1, writer[1], reader, 20, 20), 0);
    ck_assert_int_eq(reader_int(b, 0, "queue"), 100 + 16 * 20);
    ck_assert_int_eq(reader_int(b, 0, "dropped"), 2 + 16);
    ck_assert_int_eq(count_queue(b, 0, writer[0], reader + 1, 50, 1), 0);
    ck_assert_int_eq(count_queue(b, 1, writer[1], reader, 0, 1), 0);
    ck_assert_int_eq(reader_int(b, 0, "queue"), 0);
    ck_assert_int_eq(count_queue(b, 0, writer[0], reader, 8, 1), 0);
    disconnect(b, 0);
    ck_assert_int_eq(reader_int(b, 0, "queue"), 0);
    ask(b, "stream.list", 99, 0, "{}");
    settle(b);
    json_t *one = json_array_get(json_object_get(b->list, "streams"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(one, "sent")), 7);
    ck_assert_int_eq(json_integer_value(json_object_get(one, "connections")), 2);
    bed_free(b);
}
END_TEST

static void count_steps(struct bed *b, uint32_t client, uint64_t writer, unsigned step,
                        unsigned need)
{
    char json[400];

    snprintf(json, sizeof(json),
             "{\"name\":\"s\",\"writer\":%" PRIu64 ",\"step\":%u,\"need\":%u,\"epoch\":1,"
             "\"steps\":1,\"bytes\":0,\"copied\":0,\"dropped\":0,\"queue\":0,\"pinned\":0,"
             "\"blocked\":0.0,\"held\":0.0,\"sent\":0,\"connections\":0,\"queues\":[]}",
             writer, step, need);
    ck_assert_int_eq(ask(b, "stream.count", client, 0, json), 0);
}

static uint64_t write_rank(struct bed *b, uint32_t client, uint32_t rank, unsigned *step)
{
    const char *at;

    ck_assert_int_eq(write_stream(b, client, "s", rank, 2), 0);
    at = strstr(b->text, "\"step\":");
    ck_assert_msg(at && sscanf(at, "\"step\":%u", step) == 1, "%s", b->text);
    return b->peers[b->tag].number;
}

/* A writer that comes after one that died begins with the first step that a group may need, as long
 * as members of groups stay; and is told which these are. */
START_TEST(needs)
{
    struct bed *b = bed_create();
    uint64_t writer[2];
    unsigned step;

    read_stream(b, 9, "s", "");
    writer[0] = write_rank(b, 0, 0, &step);
    writer[1] = write_rank(b, 1, 1, &step);
    count_steps(b, 0, writer[0], 20, 12);
    count_steps(b, 1, writer[1], 22, 11);
    disconnect(b, 0);
    writer[0] = write_rank(b, 0, 0, &step);
    ck_assert_uint_eq(step, 22); /* nobody needs steps again */
    ck_assert_ptr_nonnull(strstr(b->text, "\"shares\":0"));
    count_steps(b, 0, writer[0], 30, 25);
    (void)peer_new(b, READER, 8);
    ask_tag(b, "stream.read", 8, FLUX_MSGF_STREAMING,
            "{\"name\":\"s\",\"reader\":77,\"place\":\"p\",\"far\":false,\"host\":\"h\","
            "\"pid\":1,\"policy\":\"group:g\",\"onoff\":\"\",\"stay\":true}",
            b->tag);
    settle(b);
    disconnect(b, 1);
    writer[1] = write_rank(b, 1, 1, &step);
    ck_assert_uint_eq(step, 11); /* this is what rank 1 had counted */
    ck_assert_ptr_nonnull(strstr(b->text, "\"shares\":1"));
    ck_assert_ptr_nonnull(strstr(b->text, "\"reader\":77,\"policy\":\"group:g\""));
    count_steps(b, 1, writer[1], 28, 27);
    settle(b);
    disconnect(b, 0);
    disconnect(b, 1);
    writer[1] = write_rank(b, 1, 1, &step);
    ck_assert_uint_eq(step, 25); /* all begin with the same number */
    writer[0] = write_rank(b, 0, 0, &step);
    ck_assert_uint_eq(step, 25);
    settle(b);
    disconnect(b, 8);
    disconnect(b, 0);
    writer[0] = write_rank(b, 0, 0, &step);
    ck_assert_uint_eq(step, 30);
    bed_free(b);
}
END_TEST

int main(void)
{
    RUN_SUITE("stream module", formats, record_formats, format_shares, shares, epochs, late_tasks,
              inherited, queues, needs);
}
