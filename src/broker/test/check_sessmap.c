/* check_sessmap.c - the session map: states, numbers, incarnations, parents and cards. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/suite.h"
#include "libflux/overlay_wire.h"
#include "src/broker/sessmap.h"

/* Eight ranks, a binary tree. */
static sessmap_t *create(void)
{
    topology_t *shape = topology_create("kary:2", 8, NULL);
    sessmap_t *m;

    ck_assert_ptr_nonnull(shape);
    m = sessmap_create(shape);
    topology_destroy(shape);
    return m;
}

static void change(sessmap_t *m, const char *ranks, enum rank_state to)
{
    idset_t *ids = idset_parse(ranks, NULL);

    ck_assert_ptr_nonnull(ids);
    sessmap_change(m, ids, to);
    idset_destroy(ids);
}

static void expect(const sessmap_t *m, const char *absent, const char *up, const char *lost,
                   const char *left)
{
    const char *want[RANK_NSTATES] = {
        [RANK_ABSENT] = absent, [RANK_UP] = up, [RANK_LOST] = lost, [RANK_LEFT] = left};

    for (int i = 0; i < RANK_NSTATES; i++) {
        if (!want[i])
            want[i] = "";
        char *got = sessmap_ranks(m, (enum rank_state)i);

        ck_assert_msg(strcmp(got, want[i]) == 0, "%s: '%s', not '%s'",
                      sessmap_state_name((enum rank_state)i), got, want[i]);
        free(got);
    }
}

START_TEST(states)
{
    sessmap_t *m = create();

    ck_assert_ptr_nonnull(m);
    expect(m, "0-7", "", "", "");
    ck_assert_uint_eq(sessmap_number(m), 0);
    change(m, "0-5", RANK_UP);
    expect(m, "6-7", "0-5", "", "");
    change(m, "3,6", RANK_LOST); /* who never came cannot be lost */
    change(m, "4", RANK_LEFT);
    expect(m, "6-7", "0-2,5", "3", "4");
    change(m, "3-6", RANK_UP);
    expect(m, "7", "0-6", "", "");
    ck_assert_uint_eq(sessmap_number(m), 4);
    ck_assert_uint_eq(sessmap_incarnation(m, 3), 2);
    ck_assert_uint_eq(sessmap_incarnation(m, 4), 2);
    ck_assert_uint_eq(sessmap_incarnation(m, 5), 1); /* it was up */
    ck_assert_uint_eq(sessmap_incarnation(m, 6), 1);
    ck_assert_uint_eq(sessmap_incarnation(m, 7), 0);
    ck_assert_uint_eq(sessmap_incarnation(m, 8), 0);
    sessmap_destroy(m);
    sessmap_destroy(NULL);
}
END_TEST

static void expect_in(const sessmap_t *m, enum rank_state state, const char *ranks)
{
    char *got = sessmap_ranks(m, state);

    ck_assert_msg(strcmp(got, ranks) == 0, "%s: '%s', not '%s'", sessmap_state_name(state), got,
                  ranks);
    ck_assert_int_eq(sessmap_state_find(sessmap_state_name(state)), state);
    free(got);
}

/* The states between absent, up and lost. */
START_TEST(between)
{
    sessmap_t *m = create();

    change(m, "0-7", RANK_SLOW); /* they are not there */
    expect(m, "0-7", "", "", "");
    change(m, "0-3", RANK_JOINING);
    expect_in(m, RANK_JOINING, "0-3");
    ck_assert_uint_eq(sessmap_incarnation(m, 0), 0);
    change(m, "3", RANK_LOST); /* it has not been there */
    change(m, "0-2", RANK_UP);
    expect(m, "3-7", "0-2", "", "");
    change(m, "0-1", RANK_SLOW);
    change(m, "1-2", RANK_DRAINING);
    expect_in(m, RANK_SLOW, "0");
    expect_in(m, RANK_DRAINING, "1-2");
    change(m, "0-2", RANK_JOINING); /* they are there */
    expect_in(m, RANK_SLOW, "0");
    change(m, "0", RANK_UP);
    expect_in(m, RANK_SLOW, "");
    ck_assert_uint_eq(sessmap_incarnation(m, 0), 1); /* it was there all the time */
    change(m, "1-2", RANK_LEFT);
    change(m, "1", RANK_JOINING);
    expect_in(m, RANK_JOINING, "1");
    expect_in(m, RANK_LEFT, "2");
    change(m, "1", RANK_LOST); /* it had left before */
    expect(m, "3-7", "0", "", "1-2");
    change(m, "1", RANK_UP);
    ck_assert_uint_eq(sessmap_incarnation(m, 1), 2);
    ck_assert_int_eq(sessmap_state_find("tired"), RANK_NSTATES);
    sessmap_destroy(m);
}
END_TEST

START_TEST(incarnations)
{
    sessmap_t *m = create();
    json_t *list;
    char *text;

    change(m, "0-7", RANK_UP);
    list = sessmap_incarnations(m);
    ck_assert_uint_eq(json_array_size(list), 0);
    json_decref(list);
    for (int i = 0; i < 2; i++) {
        change(m, "2,5", RANK_LOST);
        change(m, "2,5", RANK_UP);
    }
    change(m, "7", RANK_LEFT);
    change(m, "7", RANK_UP);
    list = sessmap_incarnations(m);
    text = json_dumps(list, JSON_COMPACT | JSON_SORT_KEYS);
    ck_assert_str_eq(text,
                     "[{\"incarnation\":3,\"ranks\":\"2,5\"},{\"incarnation\":2,\"ranks\":\"7\"}]");
    free(text);
    json_decref(list);
    sessmap_destroy(m);
}
END_TEST

/* What has changed since a number, up to `max` ranks from `first` on, is this JSON. */
static uint32_t expect_places(const sessmap_t *m, uint64_t since, uint32_t first, size_t max,
                              const char *want)
{
    uint32_t next = 99;
    json_t *list = sessmap_places(m, since, first, max, &next);
    char *text = json_dumps(list, JSON_COMPACT);

    ck_assert_str_eq(text, want);
    free(text);
    json_decref(list);
    return next;
}

#define PLACE(rank, state, incarnation, parent)                                             \
    "{\"rank\":" rank ",\"state\":\"" state "\",\"incarnation\":" incarnation ",\"parent\"" \
    ":" parent
#define CARD(address, key) ",\"address\":\"" address "\",\"key\":\"" key "\"}"

/* A rank joins, comes back at another address, moves, leaves, and is lost. */
START_TEST(cards)
{
    sessmap_t *m = create();
    uint64_t number;

    change(m, "0", RANK_UP);
    number = sessmap_number(m);
    ck_assert_int_eq(sessmap_set_key(m, 5, "k1"), 0); /* it connects */
    change(m, "5", RANK_JOINING);
    expect_places(m, number, 0, 8, "[" PLACE("5", "joining", "0", "2") ",\"key\":\"k1\"}]");
    ck_assert_int_eq(sessmap_set_address(m, 5, "tcp://a", ""), 0);
    change(m, "5", RANK_UP);
    expect_places(m, number, 0, 8, "[" PLACE("5", "up", "1", "2") CARD("tcp://a", "k1") "]");
    number = sessmap_number(m);
    expect_places(m, number, 0, 8, "[]");
    change(m, "5", RANK_LOST);
    expect_places(m, number, 0, 8, "[" PLACE("5", "lost", "1", "2") CARD("tcp://a", "k1") "]");
    number = sessmap_number(m);
    ck_assert_int_eq(sessmap_set_key(m, 5, "k2"), 0);
    ck_assert_str_eq(sessmap_key(m, 5), "k2");
    ck_assert_int_eq(sessmap_set_address(m, 5, "tcp://b", ""), 0);
    change(m, "5", RANK_UP);
    expect_places(m, number, 0, 8, "[" PLACE("5", "up", "2", "2") CARD("tcp://b", "k2") "]");
    number = sessmap_number(m);
    ck_assert_uint_eq(sessmap_moved(m, 5, 0), number + 1);
    expect_places(m, number, 0, 8, "[" PLACE("5", "up", "2", "0") CARD("tcp://b", "k2") "]");
    change(m, "5", RANK_LEFT);
    expect_places(m, number, 0, 8, "[" PLACE("5", "left", "2", "0") CARD("tcp://b", "k2") "]");
    change(m, "5", RANK_UP);
    number = sessmap_number(m);
    sessmap_set_parent(m, 5, 0);
    expect_places(m, number, 0, 8, "[]");
    sessmap_set_parent(m, 5, 2);
    expect_places(m, number, 0, 8, "[" PLACE("5", "up", "3", "2") CARD("tcp://b", "k2") "]");
    sessmap_destroy(m);
}
END_TEST

/* The same card again changes nothing; another one is told with the next change at the latest, even
 * if that is one of another rank. */
START_TEST(card_changes)
{
    sessmap_t *m = create();
    uint64_t number;

    ck_assert_int_eq(sessmap_set_address(m, 1, "tcp://a", "tcp://e"), 0);
    change(m, "0-7", RANK_UP);
    number = sessmap_number(m);
    ck_assert_int_eq(sessmap_set_address(m, 1, "tcp://a", "tcp://e"), 0);
    expect_places(m, number, 0, 8, "[]");
    ck_assert_int_eq(sessmap_set_address(m, 1, "tcp://b", ""), 0);
    change(m, "2", RANK_SLOW);
    expect_places(m, number, 0, 8,
                  "[" PLACE("1", "up", "1", "0") ",\"address\":\"tcp://b\"}," PLACE("2", "slow",
                                                                                    "1", "0") "}]");
    number = sessmap_number(m) + 1;
    change(m, "2", RANK_UP);
    ck_assert_int_eq(sessmap_set_address(m, 1, "tcp://b", ""), 0);
    expect_places(m, number, 0, 8, "[]");
    ck_assert_int_eq(sessmap_set_address(m, 8, "tcp://none", ""), 0); /* there is no such rank */
    ck_assert_ptr_null(sessmap_key(m, 8));
    sessmap_destroy(m);
}
END_TEST

/* A map in several parts. */
START_TEST(parts)
{
    sessmap_t *m = create();

    change(m, "0-7", RANK_UP);
    ck_assert_uint_eq(
        expect_places(m, 0, 0, 2,
                      "[" PLACE("0", "up", "1", "0") "}," PLACE("1", "up", "1", "0") "}]"),
        2);
    ck_assert_uint_eq(
        expect_places(m, 0, 6, 2,
                      "[" PLACE("6", "up", "1", "2") "}," PLACE("7", "up", "1", "3") "}]"),
        0);
    ck_assert_uint_eq(expect_places(m, 0, 8, 2, "[]"), 0);
    sessmap_destroy(m);
}
END_TEST

int main(void)
{
    RUN_SUITE("sessmap", states, between, incarnations, cards, card_changes, parts);
}
