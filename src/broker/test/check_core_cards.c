/* check_core_cards.c - the session map at rank 0, with the addresses that the ranks report. */
#include "config.h"

#include "heal_bed.h"
#include "libflux/overlay_wire.h"
#include "libutil/test/suite.h"

static void prepare(void)
{
    healing();
    cl_addresses = true;
}

/* An answer to overlay.map, to be released. */
static json_t *ask_map(struct cluster *cl, uint64_t since, uint32_t first, struct overlay_map *out)
{
    struct party *c = client(cl, 0);
    char json[80];
    const char *text;
    json_t *owner;
    errmsg_t err = {""};

    snprintf(json, sizeof(json), "{\"since\":%llu,\"first\":%u}", (unsigned long long)since, first);
    ask_flags(c, "overlay.map", 0, 0, json);
    ck_assert_uint_eq(c->n, 1);
    ck_assert_int_eq(flux_msg_errnum(c->kept[0]), 0);
    text = flux_msg_json(c->kept[0]);
    owner = flux_schema_decode(&overlay_map_schema, text, strlen(text), out, &err);
    ck_assert_msg(owner != NULL, "%s", err.text);
    party_leave(c);
    return owner;
}

/* The whole map: each rank that lives is there, where it is, and each has the address and the key
 * of its latest broker that was ready. */
static void expect_map(struct cluster *cl)
{
    struct overlay_map map = {0};
    json_t *owner = ask_map(cl, 0, 0, &map);

    ck_assert_uint_eq(json_array_size(map.places), cl->size);
    ck_assert_uint_eq(map.next, 0);
    for (uint32_t r = 0; r < cl->size; r++) {
        const struct node *nd = &cl->nodes[r];
        struct overlay_place p = {0};
        char want[32];

        ck_assert_int_eq(
            flux_schema_decode_json(&overlay_place_schema, json_array_get(map.places, r), &p, NULL),
            0);
        snprintf(want, sizeof(want), CL_ADDRESS, r, nd->life);
        ck_assert_uint_eq(p.rank, r);
        ck_assert_str_eq(p.state, nd->dead ? "lost" : "up");
        ck_assert_uint_eq(p.incarnation, (unsigned)nd->life + 1);
        ck_assert_msg(p.address && strcmp(p.address, want) == 0, "rank %u: %s, not %s", r,
                      p.address ? p.address : "no address", want);
        ck_assert_ptr_null(p.event);
        ck_assert_str_eq(p.key, nd->key);
        if (r > 0 && !nd->dead)
            ck_assert_msg(p.parent == nd->parent, "rank %u: %u, not %u", r, p.parent, nd->parent);
    }
    json_decref(owner);
}

START_TEST(joined)
{
    struct cluster *cl = cl_up(15, "kary:2");

    expect_map(cl);
    cl_free(cl);
}
END_TEST

/* An inner broker dies, others have another parent, and it comes back with another address. */
START_TEST(moved)
{
    struct cluster *cl = cl_up(15, "kary:2");
    struct party *c = client(cl, 0);

    cl_kill(cl, 1);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 0);
    expect_map(cl);
    start_again(cl, 1);
    cl_sleep(cl, 1.);
    expect_map(cl);
    ask_flags(c, "overlay.restore", 0, 0, "{\"ranks\":\"1\"}");
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    expect_map(cl);
    cl_free(cl);
}
END_TEST

/* Rank 4 comes back, and the report that it is ready dies with rank 1.  An orphan, rank 2 (0), or
 * rank 3, which rank 2 has taken over (1), repeats it. */
START_TEST(repeated)
{
    struct cluster *cl = cl_up(5, "chain");

    cl_kill(cl, 4);
    cl_sleep(cl, 1.);
    cl->slow[1][0] = true;
    start_again(cl, 4);
    cl_kill(cl, 1);
    if (_i)
        cl_kill(cl, 2);
    cl->slow[1][0] = false;
    cl_sleep(cl, TIMEOUT + 2.);
    ck_assert_uint_eq(cl->nodes[_i ? 3 : 2].parent, 0);
    expect_map(cl);
    cl_free(cl);
}
END_TEST

/* What has changed since a number. */
START_TEST(since)
{
    struct cluster *cl = cl_up(7, "kary:2");
    struct overlay_map map = {0};
    json_t *owner = ask_map(cl, 0, 5, &map);
    uint64_t number = map.map;
    char *text;

    ck_assert_uint_eq(json_array_size(map.places), 2); /* ranks 5 and 6 */
    json_decref(owner);
    owner = ask_map(cl, number, 0, &map);
    ck_assert_uint_eq(map.map, number);
    ck_assert_uint_eq(json_array_size(map.places), 0);
    json_decref(owner);
    cl_kill(cl, 5);
    cl_sleep(cl, 1.);
    owner = ask_map(cl, number, 0, &map);
    ck_assert_uint_gt(map.map, number);
    text = json_dumps(map.places, JSON_COMPACT | JSON_SORT_KEYS);
    ck_assert_ptr_eq(strstr(text, "[{\"address\":\"tcp://n5:0\",\"incarnation\":1,"), text);
    ck_assert_uint_eq(json_array_size(map.places), 1);
    free(text);
    json_decref(owner);
    cl_free(cl);
}
END_TEST

/* Only rank 0 has the map; and what is asked for must be numbers. */
START_TEST(refused)
{
    struct cluster *cl = cl_up(3, "chain");
    struct party *c = client(cl, 1), *d = client(cl, 0);

    ask_flags(c, "overlay.map", 1, 0, "{\"since\":0}");
    expect_answer(c, 1, EINVAL, "the session map is kept at rank 0, not at rank 1");
    ask_flags(d, "overlay.map", 0, 0, "{\"since\":\"all\"}");
    expect_answer(d, 1, EPROTO, NULL);
    ask_flags(d, "overlay.map", 0, 0, "{\"since\":0,\"until\":3}");
    expect_answer(d, 2, EPROTO, NULL);
    cl_free(cl);
}
END_TEST

/* Texts that do not fit the ranks: too few lines, too many, no end, three addresses, only that of
 * the events. */
static const char *const bad[] = {"tcp://a\\n", "tcp://a\\ntcp://b\\ntcp://c\\n",
                                  "tcp://a\\ntcp://b", "a\\tb\\tc\\nd\\n", "\\ta\\nd\\n"};

START_TEST(bad_text)
{
    struct cluster *cl = cl_create(3, "chain");
    char json[160];
    struct overlay_map map = {0};
    json_t *owner;

    cl_start(cl);
    snprintf(json, sizeof(json), "{\"ranks\":\"1-2\",\"cards\":\"%s\"}", bad[_i]);
    control(cl, 0, 1, "overlay.ready", json);
    ck_assert_ptr_nonnull(strstr(cl->nodes[0].log, "cannot read the addresses of ranks below it"));
    expect_ranks(core_ranks_up(cl->nodes[0].core), "1-2");
    owner = ask_map(cl, 0, 1, &map);
    ck_assert_ptr_null(json_object_get(json_array_get(map.places, 0), "address"));
    ck_assert_ptr_null(json_object_get(json_array_get(map.places, 1), "address"));
    json_decref(owner);
    cl_free(cl);
}
END_TEST

/* An address for events, and a rank whose address is not known. */
START_TEST(other_lines)
{
    struct cluster *cl = cl_create(3, "chain");
    struct overlay_map map = {0};
    json_t *owner;
    char *text;

    cl_start(cl);
    control(cl, 0, 1, "overlay.ready",
            "{\"ranks\":\"1-2\",\"cards\":\"tcp://a:1\\ttcp://a:2\\n\\n\"}");
    owner = ask_map(cl, 0, 1, &map);
    text = json_dumps(map.places, JSON_COMPACT);
    ck_assert_ptr_nonnull(strstr(text, "\"address\":\"tcp://a:1\",\"event\":\"tcp://a:2\""));
    ck_assert_ptr_null(json_object_get(json_array_get(map.places, 1), "address"));
    free(text);
    json_decref(owner);
    cl_free(cl);
}
END_TEST

/* An orphan names the address of an earlier broker, and ranks that are not below it. */
START_TEST(late)
{
    struct cluster *cl = cl_up(7, "kary:2");
    const char *text = "{\"rank\":3,\"parent\":1,\"move\":65537,\"below\":\"3\",\"joined\":\"%s\","
                       "\"cards\":\"tcp://old\\n%s\"}";
    char json[160];

    snprintf(json, sizeof(json), text, "3", "");
    control(cl, 0, 1, "overlay.moved", json);
    snprintf(json, sizeof(json), text, "3,5", "tcp://old\\n");
    control(cl, 0, 1, "overlay.moved", json);
    expect_map(cl);
    cl_free(cl);
}
END_TEST

/* Rank 4 is started again while rank 3 returns to rank 2, which hears first that it is there, and
 * then that it is ready. */
START_TEST(returning)
{
    struct cluster *cl = cl_up(5, "chain");
    struct party *c = client(cl, 0);

    cl_kill(cl, 4);
    replace(cl, 2);
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 1);
    cl->slow[1][3] = true; /* overlay.go waits */
    ask_flags(c, "overlay.restore", 1, 0, "{\"ranks\":\"2\"}");
    cl_pump(cl);
    cl->slow[1][3] = false;
    cl->slow[3][1] = true; /* so does overlay.leaving, and what follows it */
    cl_restart(cl, 4);
    cl_pump(cl);
    cl->slow[1][3] = true; /* overlay.given */
    cl->slow[3][1] = false;
    cl_pump(cl);
    core_local_ready(cl->nodes[4].core);
    cl_pump(cl);
    cl->slow[1][3] = false;
    cl_sleep(cl, 1.);
    ck_assert_uint_eq(cl->nodes[3].parent, 2);
    expect_map(cl);
    cl_free(cl);
}
END_TEST

/* Rank 0 hears that rank 3 has moved when that is lost.  The next broker is at the rank's place. */
START_TEST(moved_late)
{
    struct cluster *cl = cl_up(4, "chain");

    cl_kill(cl, 3);
    cl_sleep(cl, 1.);
    control(cl, 0, 1, "overlay.moved", "{\"rank\":3,\"parent\":1,\"move\":65537}");
    cl_pump(cl);
    start_again(cl, 3);
    expect_map(cl);
    cl_free(cl);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core_cards");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, prepare, NULL);
    tcase_add_test(tc, joined);
    tcase_add_test(tc, moved);
    tcase_add_loop_test(tc, repeated, 0, 2);
    tcase_add_test(tc, since);
    tcase_add_test(tc, refused);
    tcase_add_loop_test(tc, bad_text, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tc, other_lines);
    tcase_add_test(tc, late);
    tcase_add_test(tc, moved_late);
    tcase_add_test(tc, returning);
    return run_case("core_cards", tc);
}
