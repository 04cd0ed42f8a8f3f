/* check_stream_notices.c - the notices of writers and readers, transforms and switches, and the
 * work that the module stream does per turn. */
#include "config.h"

#include "modules/stream/test/bed.h"

/* Send a request to attach transforms; reader 0: to the writers. */
static int attach(struct bed *b, uint32_t reader, const char *transforms)
{
    char json[5000];

    snprintf(json, sizeof(json), "{\"name\":\"s\",\"reader\":%u,\"transforms\":\"%s\"}", reader,
             transforms);
    return ask(b, "stream.attach", 98, 0, json);
}

static bool says(struct bed *b, const char *text)
{
    return strstr(b->text, text) != NULL;
}

/* Transforms are told to the writers, also later ones, or to one reader, with a number that
 * rises. */
START_TEST(attached)
{
    struct bed *b = bed_create();
    char text[4200];
    uint32_t reader;

    ck_assert_int_eq(attach(b, 0, "a.lua"), ENOENT);
    read_stream(b, 5, "s", "");
    reader = b->tag;
    settle(b);
    ck_assert_int_eq(attach(b, 0, "a.lua"), -1); /* the answer waits for its turn */
    settle(b);
    ck_assert_int_eq(b->errnum, 0);
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 2), 0);
    ck_assert(says(b, "\"attached\":1,\"transforms\":\"a.lua\""));
    settle(b);
    attach(b, 0, "");
    still_turn(&b->still);
    ck_assert_int_eq(b->answer, b->tag);
    ck_assert_uint_eq(b->peers[b->tag - 1].told, 2);
    ck_assert_int_eq(write_stream(b, 2, "s", 1, 2), 0);
    ck_assert(says(b, "\"attached\":2,\"transforms\":\"\""));
    settle(b);
    ck_assert_int_eq(attach(b, reader + 1, "b.so"), ENOENT);
    ck_assert_int_eq(attach(b, reader, "b.so:1|c.lua"), 0);
    ck_assert_uint_eq(b->answer, reader);
    ck_assert(says(b, "\"writers\":[],\"size\":2,\"off\":false,\"attached\":1,\"transforms\":"
                      "\"b.so:1|c.lua\""));
    memset(text, 'x', 4097);
    text[4097] = '\0';
    ck_assert_int_eq(attach(b, 0, text), EINVAL);
    ck_assert_int_eq(attach(b, reader, text), EINVAL);
    settle(b);
    attach(b, 0, text + 1);
    settle(b);
    ck_assert_int_eq(b->errnum, 0);
    ask(b, "stream.list", 99, 0, "{}");
    settle(b);
    json_t *one = json_array_get(json_object_get(b->list, "streams"), 0);
    ck_assert_uint_eq(json_string_length(json_object_get(one, "transforms")), 4096);
    ck_assert_int_eq(json_integer_value(json_object_get(one, "faults")), 0);
    bed_free(b);
}
END_TEST

static int attach_all(struct bed *b, const char *transforms)
{
    char json[200];

    snprintf(json, sizeof(json), "{\"name\":\"s\",\"readers\":true,\"transforms\":\"%s\"}",
             transforms);
    return ask(b, "stream.attach", 99, 0, json);
}

/* Transforms for all readers, with or without writers; one that comes later has what there is, and
 * one that comes after they were taken away keeps its own. */
START_TEST(attached_all)
{
    struct bed *b = bed_create();
    uint32_t first;

    read_stream(b, 5, "s", "");
    first = b->tag;
    settle(b);
    ck_assert_uint_eq(b->peers[first].told, 0);
    ck_assert_int_eq(attach_all(b, "a.lua"), 0);
    settle(b);
    ck_assert_uint_eq(b->peers[first].told, 1);
    ck_assert(says(b, "\"writers\":[],\"size\":0,\"off\":false,\"attached\":1,\"transforms\":"
                      "\"a.lua\""));
    write_stream(b, 1, "s", 0, 1);
    settle(b);
    read_stream(b, 6, "s", "");
    settle(b);
    ck_assert_uint_eq(b->peers[first + 2].told, 1);
    ck_assert(says(b, "\"attached\":1,\"transforms\":\"a.lua\""));
    ck_assert_int_eq(attach(b, first, "b.lua"), 0);
    ck_assert(says(b, "\"attached\":2,\"transforms\":\"b.lua\""));
    ck_assert_int_eq(attach_all(b, ""), 0);
    settle(b);
    ck_assert(says(b, "\"transforms\":\"\""));
    read_stream(b, 7, "s", "");
    settle(b);
    ck_assert(!says(b, "attached"));
    bed_free(b);
}
END_TEST

#define MANY 3000

/* Many writers: it takes many turns to notify the readers of them, to notify them of a pause, and
 * to list the stream; the answer follows when all work is done. */
START_TEST(many_writers)
{
    struct bed *b = bed_create();
    char want[80];

    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(write_stream(b, i, "s", i, MANY), 0);
    ck_assert_int_eq(read_stream(b, MANY, "s", ""), -1);
    ck_assert_int_eq(read_stream(b, MANY, "s", ""), -1);
    ck_assert_uint_ge(settle(b), 2 * MANY / FLUX_SLICE_THINGS);
    for (unsigned i = MANY + 1; i <= MANY + 2; i++) {
        ck_assert_uint_eq(b->peers[i].items, MANY);
        ck_assert_uint_gt(b->peers[i].told, 1);
        ck_assert_uint_eq(hmap_count(b->peers[i].knows), MANY);
    }
    ck_assert_int_eq(ask(b, "stream.pause", 1, 0, "{\"name\":\"s\",\"paused\":true}"), -1);
    ck_assert_uint_ge(settle(b), MANY / FLUX_SLICE_THINGS);
    ck_assert_int_eq(b->errnum, 0);
    ck_assert_uint_eq(b->answer, b->tag);
    for (unsigned i = 1; i <= MANY; i++)
        ck_assert(b->peers[i].paused);
    ck_assert_int_eq(ask(b, "stream.list", 1, 0, "{}"), -1);
    ck_assert_uint_ge(settle(b), MANY / FLUX_SLICE_THINGS);
    snprintf(want, sizeof(want), "{\"streams\":[{\"name\":\"s\",\"writers\":%d,\"size\":%d,", MANY,
             MANY);
    ck_assert_msg(strncmp(b->text, want, strlen(want)) == 0, "%s", b->text);
    ck_assert_int_eq(ask(b, "stream.remove", 1, 0, "{\"name\":\"s\"}"), -1);
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 1), 0); /* another stream of the same name */
    ck_assert_uint_ge(settle(b), MANY / FLUX_SLICE_THINGS);
    for (unsigned i = 1; i <= MANY + 2; i++)
        ck_assert_int_eq(b->peers[i].errnum, ECANCELED);
    ck_assert_int_eq(b->peers[b->tag].errnum, 0);
    bed_free(b);
}
END_TEST

/* Many readers that name a switch. */
START_TEST(many_readers)
{
    struct bed *b = bed_create();

    ck_assert_int_eq(write_stream(b, 1, "s", 0, 2), 0);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(read_stream(b, 2 + i, "s", "x"), -1);
    settle(b);
    ck_assert_uint_eq(b->peers[1].items, MANY);
    ck_assert_int_eq(write_stream(b, 1, "s", 1, 2), 0);
    ck_assert_uint_gt(b->peers[b->tag].items, 0);
    ck_assert_uint_lt(b->peers[b->tag].items, FLUX_SLICE_THINGS);
    settle(b);
    ck_assert_uint_eq(b->peers[b->tag].items, MANY);
    event(b, "stream.switch", "{\"name\":\"x\",\"on\":true}");
    ck_assert_uint_ge(settle(b), 3 * MANY / FLUX_SLICE_THINGS);
    ck_assert_uint_eq(b->peers[1].items, 2 * MANY);
    ck_assert_uint_eq(b->peers[b->tag].items, 2 * MANY);
    ck_assert_int_eq(ask(b, "stream.readers", 1, 0, "{\"name\":\"s\"}"), -1);
    ck_assert_uint_ge(settle(b), MANY / FLUX_SLICE_THINGS);
    ck_assert_ptr_nonnull(b->list);
    ck_assert_uint_eq(json_array_size(json_object_get(b->list, "readers")), MANY);
    bed_free(b);
}
END_TEST

/* A list continues while streams come and go around its place, and its writers. */
START_TEST(list_meanwhile)
{
    struct bed *b = bed_create();
    const char *before = "", *now;
    const json_t *item;
    unsigned turns = 0, stayed = 0;
    char name[20];
    size_t at;

    for (unsigned i = 0; i < 400; i++) {
        snprintf(name, sizeof(name), "s%03u", i);
        write_stream(b, i, name, 0, 1);
        read_stream(b, i, name, "");
    }
    settle(b);
    ask(b, "stream.list", 1000, 0, "{}");
    for (; !b->list; turns++) {
        still_turn(&b->still);
        disconnect(b, turns);
        disconnect(b, 399 - turns);
        disconnect(b, 100 * turns + 60); /* near the place of the list */
        snprintf(name, sizeof(name), "a%03u", turns);
        write_stream(b, 1000, name, 0, 1);
    }
    ck_assert_uint_gt(turns, 2);
    ck_assert_uint_lt(turns, 40);
    json_array_foreach(json_object_get(b->list, "streams"), at, item)
    {
        now = json_string_value(json_object_get(item, "name"));
        ck_assert_int_lt(strcmp(before, now), 0);
        stayed += *now == 's' && json_integer_value(json_object_get(item, "readers")) == 1;
        before = now;
    }
    ck_assert_uint_ge(stayed, 400 - 3 * turns);
    ask(b, "stream.readers", 1000, 0, "{\"name\":\"s200\"}");
    disconnect(b, 200);
    settle(b);
    ck_assert_int_eq(b->errnum, ENOENT);
    bed_free(b);
}
END_TEST

/* --- random operations --- */

#define RANKS 12

struct world {
    struct bed *b;
    unsigned seed;
    uint32_t writers[RANKS]; /* tags of the writers; 0: none */
    uint32_t readers[RANKS];
    bool on;
};

static void leave(struct world *w, uint32_t *tag)
{
    struct bed *b = w->b;

    disconnect(b, b->peers[*tag].client);
    ck_assert_int_eq(b->peers[*tag].errnum, ENODATA);
    *tag = 0;
}

static void change(struct world *w)
{
    uint32_t i = (uint32_t)rand_r(&w->seed) % RANKS;
    struct bed *b = w->b;
    char json[100];

    switch (rand_r(&w->seed) % 8) {
    case 0:
    case 1:
        if (w->writers[i])
            leave(w, &w->writers[i]);
        else if (write_stream(b, 1000 + b->tag, "s", i, RANKS) == 0)
            w->writers[i] = b->answer;
        break;
    case 2:
    case 3:
        if (w->readers[i]) {
            leave(w, &w->readers[i]);
        } else {
            read_stream(b, 1000 + b->tag, "s", rand_r(&w->seed) % 2 ? "x" : "");
            w->readers[i] = b->tag;
        }
        break;
    case 4:
        w->on = !w->on;
        snprintf(json, sizeof(json), "{\"name\":\"x\",\"on\":%s}", w->on ? "true" : "false");
        event(b, "stream.switch", json);
        break;
    case 5:
        if (w->readers[i]) {
            snprintf(json, sizeof(json), "{\"name\":\"s\",\"reader\":%u,\"policy\":\"latest\"}",
                     w->readers[i]);
            ask(b, "stream.policy", 1, 0, json);
        }
        break;
    default:
        still_turn(&b->still);
    }
}

/* Check that each reader knows exactly the present writers, and all writers have the same knowledge
 * of readers. */
static void agree(struct world *w)
{
    struct bed *b = w->b;
    const struct peer *first = NULL;

    settle(b);
    for (int i = 0; i < RANKS; i++) {
        const struct peer *p = &b->peers[w->writers[i]];

        if (!w->writers[i])
            continue;
        for (int k = 0; k < RANKS; k++) {
            const struct peer *r = &b->peers[w->readers[k]];

            if (w->readers[k])
                ck_assert_ptr_nonnull(hmap_get_u64(r->knows, p->number));
            if (w->readers[k] && first)
                ck_assert_ptr_eq(hmap_get_u64(p->knows, w->readers[k]),
                                 hmap_get_u64(first->knows, w->readers[k]));
        }
        if (first)
            ck_assert_uint_eq(hmap_count(p->knows), hmap_count(first->knows));
        ck_assert_uint_le(hmap_count(p->knows), RANKS);
        first = p;
    }
    for (int k = 0; k < RANKS; k++) {
        size_t n = 0;

        for (int i = 0; i < RANKS; i++)
            n += w->writers[i] > 0;
        if (w->readers[k])
            ck_assert_uint_eq(hmap_count(b->peers[w->readers[k]].knows), n);
    }
}

/* A broker on the way of a writer and a reader is lost: nobody is told that they are gone, they are
 * known by what they send again, and are told everything once more. */
START_TEST(away)
{
    struct bed *b = bed_create();
    uint32_t first, reader, other, again;

    ck_assert_int_eq(write_stream(b, 1, "s", 0, 2), 0);
    first = b->tag;
    read_stream(b, 2, "s", "");
    reader = b->tag;
    read_stream(b, 3, "s", "");
    other = b->tag;
    settle(b);
    lose_way(b, 1);
    lose_way(b, 2);
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[other].knows), 1);
    ck_assert_int_eq(write_stream(b, 4, "s", 0, 2), EEXIST);
    ck_assert_int_eq(write_stream(b, 4, "s", 1, 2), 0);
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 2), 0);
    ck_assert_uint_eq(b->peers[b->tag].number, b->peers[first].number);
    ck_assert_int_eq(read_again(b, 2, "s", reader, "elsewhere"), EEXIST);
    read_again(b, 2, "s", reader, "h");
    again = b->tag;
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[again].knows), 2);
    ck_assert_uint_eq(hmap_count(b->peers[other].knows), 2);

    /* One that does not come back is gone, in the end; one that has come back is not. */
    lose_way(b, 1);
    lose_way(b, 2);
    b->still.passed = 30.;
    read_again(b, 2, "s", reader, "h");
    again = b->tag;
    flux_watcher_fire(b->still.timer);
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[other].knows), 2);
    b->still.passed = 61.;
    flux_watcher_fire(b->still.timer);
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[other].knows), 1);
    ck_assert_uint_eq(hmap_count(b->peers[again].knows), 1);
    ck_assert_int_eq(b->peers[again].errnum, 0);

    /* Its client ends while it is away. */
    lose_way(b, 4);
    disconnect(b, 4);
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[other].knows), 0);
    bed_free(b);
}
END_TEST

/* The loss of its way is told after a writer has come again by another one: it stays. */
START_TEST(away_told_late)
{
    struct bed *b = bed_create();
    uint32_t reader;

    read_stream(b, 3, "s", "");
    reader = b->tag;
    b->way = 1;
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 2), 0);
    ck_assert_int_eq(write_stream(b, 2, "s", 1, 2), 0);
    b->way = 2;
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 2), 0);
    b->way = 1;
    lose_way(b, 1);
    lose_way(b, 2); /* this one does not come again */
    settle(b);
    b->still.passed = 61.;
    flux_watcher_fire(b->still.timer);
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[reader].knows), 1);
    bed_free(b);
}
END_TEST

/* A copy of a request that was under way for longer comes after a later one, and then the notice
 * that its way was lost: the reader, which nobody has written for yet, is told by the other way to
 * ask again, after a response, as it does so only then.  By a way of which such a notice has come,
 * or that the last copy has come by, it is not told. */
START_TEST(away_copies)
{
    static const uint32_t ways[] = {1, 2, 3, 2, 3};
    struct bed *b = bed_create();
    uint32_t reader;

    b->way = 1;
    read_stream(b, 3, "s", "");
    reader = b->tag;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        b->way = ways[i];
        b->tag = reader;
        read_repeat(b, 3, "s", reader, "h");
    }
    settle(b);
    b->did = 0;
    b->way = 1;
    lose_way(b, 3);
    ck_assert_uint_eq(b->did, 0);
    b->way = 3;
    lose_way(b, 3);
    ck_assert_uint_eq(b->did, 3);
    ck_assert_int_eq(b->errnum, EHOSTUNREACH);
    ck_assert_uint_eq(b->by, 2);
    ck_assert(b->peers[reader].empty);
    b->peers[reader].empty = false;

    b->way = 2;
    read_again(b, 3, "s", reader, "h");
    reader = b->tag;
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 1), 0);
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[reader].knows), 1);
    bed_free(b);
}
END_TEST

/* A stream is removed while a writer and readers of it are away: they hear of it when they ask
 * again, once; a reader that comes later hears nothing of it. */
START_TEST(away_removed)
{
    struct bed *b = bed_create();
    uint32_t reader, late;

    ck_assert_int_eq(write_stream(b, 1, "s", 0, 1), 0);
    read_stream(b, 2, "s", "");
    reader = b->tag;
    read_stream(b, 3, "s", "");
    late = b->tag;
    settle(b);
    lose_way(b, 1);
    lose_way(b, 2);
    lose_way(b, 3);
    ck_assert_int_eq(ask(b, "stream.remove", 9, 0, "{\"name\":\"s\"}"), -1);
    settle(b);
    lose_way(b, 2);
    ck_assert_int_eq(read_again(b, 2, "s", reader, "h"), ECANCELED);
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 1), ECANCELED);
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 1), 0);
    read_again(b, 2, "s", reader, "h");
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[b->tag].knows), 1);

    /* One that comes after its time joins what is there now. */
    b->still.passed = 61.;
    flux_watcher_fire(b->still.timer);
    read_again(b, 3, "s", late, "h");
    settle(b);
    ck_assert_uint_eq(hmap_count(b->peers[b->tag].knows), 1);
    lose_way(b, 3);
    ck_assert_int_eq(ask(b, "stream.remove", 9, 0, "{\"name\":\"s\"}"), -1);
    settle(b);
    bed_free(b);
}
END_TEST

/* A stream is removed while the way to a writer and a reader is broken, which nobody has noticed
 * yet: that they were told of it is lost. */
START_TEST(removed_unheard)
{
    struct bed *b = bed_create();
    uint32_t reader, again;

    ck_assert_int_eq(write_stream(b, 1, "s", 0, 1), 0);
    read_stream(b, 2, "s", "");
    reader = b->tag;
    settle(b);
    ck_assert_int_eq(ask(b, "stream.remove", 9, 0, "{\"name\":\"s\"}"), -1);
    settle(b);
    lose_way(b, 1);
    lose_way(b, 2);
    ck_assert_int_eq(write_stream(b, 3, "s", 0, 2), 0);
    ck_assert_int_eq(write_stream(b, 1, "s", 0, 1), ECANCELED);
    ck_assert_int_eq(read_again(b, 2, "s", reader, "h"), ECANCELED);
    again = b->tag;
    /* That answer is lost as well, and a broker sends the request again. */
    for (int i = 1; i <= 3; i++) {
        b->still.passed = 40. * i;
        flux_watcher_fire(b->still.timer);
        b->tag = again;
        ck_assert_int_eq(read_repeat(b, 2, "s", reader, "h"), ECANCELED);
    }
    b->still.passed = 181.;
    flux_watcher_fire(b->still.timer);
    b->tag = again;
    ck_assert_int_ne(read_repeat(b, 2, "s", reader, "h"), ECANCELED);
    settle(b);
    bed_free(b);
}
END_TEST

/* --- causes --- */

/* A writer, which is task 0 of job 7, dies under a reader.  Returns the match tag of the reader. */
static uint32_t dies(struct bed *b)
{
    uint32_t reader;

    ck_assert_int_eq(write_task(b, 1, "s", 0, 1, 7), 0);
    read_stream(b, 2, "s", "");
    reader = b->tag;
    settle(b);
    disconnect(b, 1);
    settle(b);
    ck_assert_str_eq(b->peers[reader].why, "rank 0 of the writers has died");
    ck_assert_uint_eq(b->peers[reader].more, 1);
    ck_assert_ptr_nonnull(b->question);
    ck_assert_str_eq(flux_msg_json(b->question), "{\"id\":7,\"task\":0}");
    ck_assert_uint_eq(flux_msg_nodeid(b->question), 0);
    return reader;
}

static void respond(struct bed *b, int errnum, const char *json)
{
    flux_msg_t *msg = flux_msg_response_create(b->question, errnum);

    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    flux_handle_deliver(b->f.h, msg);
    settle(b);
}

/* The cause that a list has; NULL: none. */
static const char *listed(struct bed *b)
{
    ask(b, "stream.list", 9, 0, "{}");
    settle(b);
    return json_string_value(
        json_object_get(json_array_get(json_object_get(b->list, "streams"), 0), "cause"));
}

/* The module of the rank of the task says how it ended, or that it does not know. */
START_TEST(causes)
{
    static const struct {
        int errnum;
        const char *json, *cause;
    } cases[] = {
        {0, "{\"status\":9}", "rank 0 of writer job 7 ended by signal 9"},
        {0, "{\"status\":768}", "rank 0 of writer job 7 ended with exit code 3"},
        {0, "{\"status\":0}", "rank 0 of writer job 7 ended with exit code 0"},
        {EHOSTUNREACH, "no way", "rank 0 of writer job 7 was lost with the broker of rank 0"},
        {ENOENT, "unknown", "rank 0 of writer job 7 has died"},
        {0, "{}", "rank 0 of writer job 7 has died"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bed *b = bed_create();
        uint32_t reader = dies(b);

        ck_assert_str_eq(listed(b), "rank 0 of the writers has died");
        respond(b, cases[i].errnum, cases[i].json);
        ck_assert_str_eq(b->peers[reader].why, cases[i].cause);
        ck_assert_uint_eq(b->peers[reader].more, 0);
        ck_assert_str_eq(listed(b), cases[i].cause);
        bed_free(b);
    }
}
END_TEST

/* Nobody knows in time. */
START_TEST(cause_unknown)
{
    struct bed *b = bed_create();
    uint32_t reader = dies(b);

    b->still.passed = 10.;
    flux_watcher_fire(b->still.timer);
    settle(b);
    ck_assert_str_eq(b->peers[reader].why, "rank 0 of writer job 7 has died");
    ck_assert(b->canceled);
    bed_free(b);
}
END_TEST

/* Another writer has joined: the reader is told the cause, but the stream is well. */
START_TEST(cause_late)
{
    struct bed *b = bed_create();
    uint32_t reader = dies(b);

    ck_assert_int_eq(write_task(b, 1, "s", 0, 1, 8), 0);
    respond(b, 0, "{\"status\":9}");
    ck_assert_str_eq(b->peers[reader].why, "rank 0 of writer job 7 ended by signal 9");
    ck_assert_ptr_null(listed(b));
    bed_free(b);
}
END_TEST

START_TEST(chance)
{
    for (unsigned run = 0; run < suite_runs(16); run++) {
        struct world w = {.b = bed_create(), .seed = 100 + run};

        for (unsigned i = 0; i < 1000; i++) {
            change(&w);
            if (i % 50 == 0)
                agree(&w);
        }
        agree(&w);
        bed_free(w.b);
    }
}
END_TEST

int main(void)
{
    RUN_SUITE("stream notices", attached, attached_all, many_writers, many_readers, list_meanwhile,
              away, away_told_late, away_copies, away_removed, removed_unheard, causes,
              cause_unknown, cause_late, chance);
}
