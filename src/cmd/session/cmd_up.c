/* cmd_up.c - flux up: print which ranks of the session are up. */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>

#include "../cmd_all.h"
#include "cmd_session.h"

static const struct cmd_opt opts[] = {
    {'l', "long", NULL, "print a table with one line per rank"},
    {'a', "addresses", NULL, "the same, with the addresses of the brokers"},
    {'j', "json", NULL, "print JSON; with --long or --addresses, an array of one object per rank"},
    {'q', "quiet", NULL, "print nothing, and set the exit code only"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...]",
    "Print one line with the ranks that are up and, if there are any, those that are slow or\n"
    "draining, and those that are not up.",
    opts,
    "Exit code 1 also when a rank is not up.",
    0,
};

static void print_set(const char *what, const idset_t *ids)
{
    char *text = idset_empty(ids) ? NULL : idset_format(ids, 0);

    if (text)
        printf("%s: %s", what, text);
    free(text);
}

static void print_line(const struct session *s)
{
    printf("%zu of %u up", idset_count(s->up), s->size);
    print_set("", s->up);
    for (int i = SESSION_UP + 1; i < SESSION_NSTATES; i++) {
        char what[32];

        snprintf(what, sizeof(what), "; %s", session_state_name((enum session_state)i));
        print_set(what, s->in[i]);
    }
    putchar('\n');
}

static int add_set(json_t *obj, const char *key, const idset_t *ids)
{
    char *text = idset_format(ids, 0);
    int rc = text ? json_object_set_new(obj, key, json_string(text)) : -1;

    free(text);
    return rc;
}

static int print_object(struct cmd *c, const struct session *s)
{
    json_t *obj = json_object();
    int rc = -1;

    if (obj && json_object_set_new(obj, "size", json_integer(s->size)) == 0 &&
        json_object_set_new(obj, "state", json_string(s->state)) == 0 &&
        json_object_set_new(obj, "map", json_integer((json_int_t)s->map)) == 0)
        rc = add_set(obj, "up", s->up);
    for (int i = SESSION_UP + 1; rc == 0 && i < SESSION_NSTATES; i++)
        rc = add_set(obj, session_state_name((enum session_state)i), s->in[i]);
    if (rc < 0) {
        json_decref(obj);
        obj = NULL;
    }
    return obj ? cmd_print_json(c, obj) : cmd_error(c, "out of memory");
}

static int print_table(struct cmd *c, const struct session *s, bool json)
{
    table_t *t = table_create();

    table_column(t, "rank", "RANK", TABLE_RIGHT);
    table_column(t, "state", "STATE", TABLE_LEFT);
    table_column(t, "parent", "PARENT", TABLE_RIGHT);
    table_column(t, "depth", "DEPTH", TABLE_RIGHT);
    table_column(t, "incarnation", "INCARNATION", TABLE_RIGHT);
    if (s->places)
        table_column(t, "address", "ADDRESS", TABLE_LEFT);
    if (s->places && json) {
        table_column(t, "event", "EVENT", TABLE_LEFT);
        table_column(t, "key", "KEY", TABLE_LEFT);
    }
    for (uint32_t rank = 0; rank < s->size; rank++) {
        struct overlay_place p = {0};
        uint32_t parent = topology_parent(s->topo, rank);

        table_row(t);
        table_u64(t, rank);
        table_str(t, session_rank_state(s, rank));
        if (parent == TOPOLOGY_NONE)
            table_null(t);
        else
            table_u64(t, parent);
        table_u64(t, topology_depth(s->topo, rank));
        table_u64(t, session_rank_incarnation(s, rank));
        if (s->places) {
            p = session_rank_place(s, rank);
            table_str(t, p.address);
        }
        if (s->places && json) {
            table_str(t, p.event);
            table_str(t, p.key);
        }
    }
    return cmd_print_table(c, t, json);
}

int cmd_up(struct cmd *c, int argc, char **argv)
{
    bool full = false, addresses = false;
    bool json = false;
    bool quiet = false;
    struct session s;
    int rc = CMD_OK;
    int key;

    while ((key = cmd_option(c, &usage, argc, argv, NULL)) > 0) {
        full |= key == 'l' || key == 'a';
        addresses |= key == 'a';
        json |= key == 'j';
        quiet |= key == 'q';
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc > c->optind)
        return cmd_usage_error(c, "no argument is expected");
    if (session_query(c, &s, full) < 0 || (addresses && !quiet && session_query_places(c, &s) < 0))
        return CMD_FAIL;
    if (full && !quiet)
        rc = print_table(c, &s, json);
    else if (json && !quiet)
        rc = print_object(c, &s);
    else if (!quiet)
        print_line(&s);
    if (idset_count(s.up) < s.size)
        rc = CMD_FAIL;
    session_clear(&s);
    return rc;
}
