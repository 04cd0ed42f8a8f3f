/* sim_flows.c - flux sim network --flows: the time at which each message of a file ends.
 *
 * Format: a line is "from to size": two nodes, and units of data.  Blank lines, and lines that
 * begin with "#", are skipped.  All messages begin at time 0, and rates are exact.
 *
 * Failure: an exit code, after an error message that names the file and the line.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "sim_net.h"

struct message {
    uint32_t from, to;
    double size;
};

struct flows {
    sim_net_t *net;
    struct message *m;
    size_t n, space;
    uint32_t nodes;
};

static int parse_node(const char **s, uint32_t nodes, uint32_t *out)
{
    char *end;
    unsigned long x;

    *s += strspn(*s, " \t");
    if (**s < '0' || **s > '9')
        return -1;
    errno = 0;
    x = strtoul(*s, &end, 10);
    if (errno || x >= nodes || (*end != ' ' && *end != '\t'))
        return -1;
    *s = end;
    *out = (uint32_t)x;
    return 0;
}

static int parse_message(const char *s, uint32_t nodes, struct message *m)
{
    char *end;

    if (parse_node(&s, nodes, &m->from) < 0 || parse_node(&s, nodes, &m->to) < 0)
        return -1;
    m->size = strtod(s, &end);
    if (end == s || !isfinite(m->size) || m->size < 1e-6 || m->size > 1e12)
        return -1;
    return end[strspn(end, " \t\r\n")] ? -1 : 0;
}

/* 0; -1 with EINVAL or ENOMEM. */
static int add_line(struct flows *f, const char *line)
{
    struct message m;
    size_t blank = strspn(line, " \t\r\n");

    if (line[blank] == '\0' || line[blank] == '#')
        return 0;
    if (parse_message(line, f->nodes, &m) < 0) {
        errno = EINVAL;
        return -1;
    }
    if (f->n == f->space) {
        size_t space = f->space ? f->space * 2 : 64;
        struct message *all = reallocarray(f->m, space, sizeof(*all));

        if (!all)
            return -1;
        f->m = all;
        f->space = space;
    }
    f->m[f->n++] = m;
    return sim_net_add(f->net, m.from, m.to, m.size) == SIZE_MAX ? -1 : 0;
}

static int read_messages(struct cmd *c, struct flows *f, const char *path)
{
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    char *line = NULL;
    size_t space = 0, number = 0;
    int rc = 0, saved;

    if (!in)
        return cmd_error(c, "cannot read %s: %s", path, strerror(errno));
    errno = 0;
    while (rc == 0 && getline(&line, &space, in) >= 0) {
        number++;
        rc = add_line(f, line);
    }
    saved = errno;
    if (rc == 0 && ferror(in))
        rc = cmd_error(c, "cannot read %s: %s", path, strerror(saved));
    else if (rc < 0 && saved == EINVAL)
        rc = cmd_error(c, "%s, line %zu: expected two nodes below %u and a size from 1e-6 to 1e12",
                       path, number, f->nodes);
    else if (rc < 0)
        rc = cmd_error(c, "out of memory for the messages of %s", path);
    free(line);
    if (in != stdin)
        fclose(in);
    return rc;
}

static int print_ends(struct cmd *c, const struct flows *f, const double *finish, bool json)
{
    table_t *t = table_create();

    table_column(t, "from", "FROM", TABLE_RIGHT);
    table_column(t, "to", "TO", TABLE_RIGHT);
    table_column(t, "size", "SIZE", TABLE_RIGHT);
    table_column(t, "end", "END", TABLE_RIGHT);
    for (size_t i = 0; i < f->n; i++) {
        table_row(t);
        table_u64(t, f->m[i].from);
        table_u64(t, f->m[i].to);
        table_real(t, f->m[i].size, 3);
        table_real(t, finish[i], 6);
    }
    return cmd_print_table(c, t, json);
}

int sim_flows(struct cmd *c, const struct sim_machine *m, const char *path, bool json)
{
    struct flows f = {.net = sim_net_create(m->pods, m->leaves, m->k), .nodes = m->nodes};
    double *finish = NULL;
    int rc = f.net ? read_messages(c, &f, path) : cmd_error(c, "out of memory");

    if (rc == CMD_OK) {
        finish = calloc(f.n + 1, sizeof(*finish));
        if (!finish || sim_net_run(f.net, 0, finish, NULL, NULL) < 0)
            rc = cmd_error(c, "out of memory");
        else
            rc = print_ends(c, &f, finish, json);
    }
    free(finish);
    free(f.m);
    sim_net_destroy(f.net);
    return rc;
}
