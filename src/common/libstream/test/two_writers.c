/* two_writers.c - two writers and a reader, for tests: see two_writers.h. */
#include "config.h"
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "two_writers.h"

errmsg_t err;

void fails(int rc, int errnum, const char *text)
{
    ck_assert_int_eq(rc, -1);
    ck_assert_msg(errno == errnum, "%s: %s", strerror(errno), err.text);
    ck_assert_str_eq(err.text, text);
}

void works(int rc)
{
    ck_assert_msg(rc >= 0, "%s", err.text);
}

static void answer(struct fake *f, int errnum, unsigned flags, const char *json)
{
    if (f->inbox_first == f->inbox_count)
        f->inbox_first = f->inbox_count = 0;
    fake_inbox(f, fake_answer(f, f->nsent - 1, errnum, flags, json));
}

static void module_hook(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;
    char text[1200];

    fake_keep(f, msg);
    if (strcmp(flux_msg_topic(msg), "stream.write") == 0) {
        json_t *o = json_loads(flux_msg_json(msg), 0, NULL);

        snprintf(b->member[b->n], sizeof(b->member[b->n]),
                 "{\"writer\":%u,\"rank\":%u,\"epoch\":1,\"host\":\"h\",\"address\":\"%s\","
                 "\"key\":\"%s\",\"far\":false,\"reader\":0,\"expires\":0}",
                 b->n + 1, b->n, json_string_value(json_object_get(o, "address")),
                 json_string_value(json_object_get(o, "key")));
        b->n++;
        json_decref(o);
        answer(f, 0, FLUX_MSGF_STREAMING,
               "{\"writer\":3,\"step\":0,\"epoch\":1,\"paused\":false,\"limit\":0,\"readers\":[],"
               "\"gone\":[]}");
    } else if (strcmp(flux_msg_topic(msg), "stream.read") == 0) {
        snprintf(text, sizeof(text),
                 "{\"size\":2,\"off\":false,\"born\":1,\"gone\":[],\"writers\":[%s,%s]}",
                 b->member[0], b->member[1]);
        answer(f, 0, FLUX_MSGF_STREAMING, text);
    } else if (strcmp(flux_msg_topic(msg), "stream.format") == 0) {
        char *json = json_dumps(b->format, 0);

        answer(f, 0, 0, json);
        free(json);
        b->asked++;
    } else if (!flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE)) {
        if (strcmp(flux_msg_topic(msg), "stream.define") == 0) {
            json_t *o = json_loads(flux_msg_json(msg), 0, NULL);

            json_decref(b->format);
            b->format = json_object();
            json_object_set(b->format, "format", json_object_get(o, "format"));
            json_decref(o);
        }
        answer(f, 0, 0, NULL);
    }
}

struct fake *party(struct bed *b)
{
    struct fake *f = fake_create();

    f->hook = module_hook;
    f->user = b;
    return f;
}

flux_stream_t *reader_open(struct bed *b, const struct flux_stream_opts *opts)
{
    return flux_stream_open(b->f[2]->h, "s", FLUX_STREAM_READ, opts, &err);
}

void bed_init(struct bed *b, const char *policy, uint32_t depth)
{
    const struct flux_stream_opts opts = {.policy = policy, .depth = depth};

    *b = (struct bed){.n = 0};
    for (uint32_t k = 0; k < 2; k++) {
        const struct flux_stream_opts w = {.transport = "ring", .rank = k, .size = 2};

        b->f[k] = party(b);
        b->w[k] = flux_stream_open(b->f[k]->h, "s", FLUX_STREAM_WRITE, &w, &err);
        ck_assert_msg(b->w[k] != NULL, "%s", err.text);
    }
    b->f[2] = party(b);
    ck_assert_msg((b->r = reader_open(b, &opts)) != NULL, "%s", err.text);
    for (uint32_t k = 0; k < 2; k++)
        works(flux_stream_wait_readers(b->w[k], 1, 30., &err));
}

void bed_free(struct bed *b)
{
    flux_stream_close(b->r);
    for (int k = 0; k < 2; k++)
        flux_stream_close(b->w[k]);
    for (int k = 0; k < 3; k++)
        fake_free(b->f[k]);
    json_decref(b->format);
}

void end(struct bed *b)
{
    for (int k = 0; k < 2; k++)
        works(flux_stream_end_step(b->w[k], 10., &err));
}

int begin(struct bed *b, uint64_t which)
{
    return flux_stream_begin_step(b->r, which, 0., NULL, &err);
}

void put_number(struct bed *b, int k)
{
    static uint64_t n[2];

    n[k] = flux_stream_step(b->w[k]);
    works(flux_stream_put(b->w[k], "n", &n[k], sizeof(n[k]), &err));
    works(flux_stream_end_step(b->w[k], 10., &err));
}

void has(struct bed *b, uint64_t step)
{
    for (uint32_t k = 0; k < 2; k++) {
        const void *p;
        uint64_t n;
        size_t len;

        works(flux_stream_get(b->r, k, "n", &p, &len, &err));
        memcpy(&n, p, sizeof(n));
        ck_assert_uint_eq(n, step);
    }
    ck_assert_uint_eq(flux_stream_step(b->r), step);
    works(flux_stream_end_step(b->r, 0., &err));
}
