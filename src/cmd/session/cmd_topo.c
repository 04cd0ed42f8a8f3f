/* cmd_topo.c - flux topo: print the tree that connects the ranks.
 *
 * The local broker is queried for the shape of the tree, and rank 0 for the ranks that are up,
 * because it knows the state of all ranks.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cmd_all.h"
#include "cmd_session.h"

static const struct cmd_opt opts[] = {
    {'d', "dot", NULL, "print the tree in the Graphviz language"},
    {'f', "file", NULL, "print the tree as a file for flux start --topology"},
    {'j', "json", NULL, "print a JSON object"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...]",
    "Print the tree that connects the ranks of the session. Ranks that are not up, or are slow or\n"
    "draining, are marked.",
    opts,
    NULL,
    0,
};

static void label(uint32_t rank, char *buf, size_t size, void *arg)
{
    const struct session *s = arg;
    const char *state = session_rank_state(s, rank);

    if (strcmp(state, "up") == 0)
        snprintf(buf, size, "%u", rank);
    else
        snprintf(buf, size, "%u (%s)", rank, state);
}

static int print_json(struct cmd *c, const struct session *s)
{
    json_t *obj = json_object();
    json_t *ranks = json_array();

    for (uint32_t rank = 0; ranks && rank < s->size; rank++) {
        uint32_t parent = topology_parent(s->topo, rank);
        json_t *o = json_object();

        json_object_set_new(o, "rank", json_integer(rank));
        json_object_set_new(o, "parent",
                            parent == TOPOLOGY_NONE ? json_null() : json_integer(parent));
        json_object_set_new(o, "depth", json_integer(topology_depth(s->topo, rank)));
        json_object_set_new(o, "state", json_string(session_rank_state(s, rank)));
        json_object_set_new(o, "incarnation", json_integer(session_rank_incarnation(s, rank)));
        if (json_array_append_new(ranks, o) < 0) {
            json_decref(ranks);
            ranks = NULL;
        }
    }
    if (!obj || !ranks || json_object_set_new(obj, "size", json_integer(s->size)) < 0 ||
        json_object_set_new(obj, "topology", json_string(s->spec)) < 0 ||
        json_object_set(obj, "ranks", ranks) < 0) {
        json_decref(ranks);
        json_decref(obj);
        return cmd_error(c, "out of memory");
    }
    json_decref(ranks);
    return cmd_print_json(c, obj);
}

int cmd_topo(struct cmd *c, int argc, char **argv)
{
    struct session s;
    char *text;
    int form = 't';
    int key;
    int rc;

    while ((key = cmd_option(c, &usage, argc, argv, NULL)) > 0)
        form = key;
    if (key < 0)
        return cmd_option_exit(key);
    if (argc > c->optind)
        return cmd_usage_error(c, "no argument is expected");
    if (session_query(c, &s, true) < 0)
        return CMD_FAIL;
    if (form == 'j')
        rc = print_json(c, &s);
    else {
        text = form == 'd'   ? topology_format_dot(s.topo, label, &s)
               : form == 'f' ? topology_format_file(s.topo)
                             : topology_format_tree(s.topo, label, &s);
        rc = CMD_OK;
        if (text)
            fputs(text, stdout);
        else
            rc = cmd_error(c, "cannot draw the tree: %s", strerror(errno));
        free(text);
    }
    session_clear(&s);
    return rc;
}
