/* cmd_pstree.c - flux pstree: print the tree of sessions and their jobs.
 *
 * One line per job, below the session that it belongs to:
 *
 *    session of 4 brokers
 *    |-- 3 batch.sh: 2 nodes, session of 2 brokers, 59m left
 *    |   |-- 1 sim: 1 node, 4 tasks
 *    |   `-- 2 sim: 1 node, 4 tasks
 *    `-- 4 hostname: 4 nodes
 *
 * Lines are drawn in Unicode if the locale is UTF-8.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../cmd_all.h"
#include "libutil/strbuf.h"
#include "nestlink.h"
#include "nesttree.h"
#include "nesturi.h"

enum { OPT_JSON = CMD_KEY(0), OPT_RELAY, OPT_ASCII };

static const struct cmd_opt opts[] = {
    {'a', "all", NULL, "include pending and ended jobs"},
    {'p', "pending", NULL, "include pending jobs"},
    {'s', "sessions", NULL, "show only jobs that are sessions"},
    {'c', "compact", NULL, "show identical adjacent jobs on one line: 12*sleep"},
    {'L', "level", "N", "limit the depth to N levels of sessions"},
    {OPT_ASCII, "ascii", NULL, "draw with |, - and ` in any locale"},
    {OPT_JSON, "json", NULL, "print JSON"},
    {OPT_RELAY, "relay", NULL, "connect through the enclosing sessions, even on the same host"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [ID[/ID...]]",
    "Print a tree of the jobs that run in this session, or in the session of job ID, and in the\n"
    "sessions below it.",
    opts,
    NULL,
    0,
};

struct style {
    const char *branch, *last, *down, *blank;
};
static const struct style ascii = {"|-- ", "`-- ", "|   ", "    "};
static const struct style unicode = {"\u251c\u2500\u2500 ", "\u2514\u2500\u2500 ", "\u2502   ",
                                     "    "};

struct pstree {
    struct nesttree_params params;
    const struct style *style;
    bool compact;
    strbuf_t *prefix;
};

static bool unicode_terminal(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *val = getenv(names[i]);
        if (val && *val)
            return strcasestr(val, "utf-8") || strcasestr(val, "utf8");
    }
    return false;
}

static void print_count(const char *lead, uint64_t n, const char *what)
{
    printf("%s%llu %s%s", lead, (unsigned long long)n, what, n == 1 ? "" : "s");
}

/* What is printed of a name: no control characters. */
static void print_name(const char *s)
{
    for (; *s; s++)
        putchar((unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s);
}

static void print_time_left(double t)
{
    double left = t - (double)time(NULL);
    unsigned long long s = left > 0. ? (unsigned long long)left : 0;

    if (s >= 2 * 3600)
        printf(", %lluh left", s / 3600);
    else if (s >= 120)
        printf(", %llum left", s / 60);
    else
        printf(", %llus left", s);
}

static void print_label(const struct nestnode *n, size_t times)
{
    const char *lead = ": ";

    if (n->name) {
        if (times > 1)
            printf("%zu*", times);
        else
            printf("%llu ", (unsigned long long)n->id);
        print_name(n->name);
        if (n->state && strcmp(n->state, "running") != 0) {
            printf("%s%s", lead, n->state);
            lead = ", ";
        }
        if (n->nnodes > 0) {
            print_count(lead, n->nnodes, "node");
            lead = ", ";
        }
        if (n->size == 0 && n->ntasks > 1) {
            print_count(lead, n->ntasks, "task");
            lead = ", ";
        }
    } else
        lead = "";
    if (n->size > 0)
        print_count(n->name ? ", session of " : "session of ", n->size, "broker");
    else if (n->address && !n->error)
        printf("%ssession", lead);
    if (n->expiration > 0.)
        print_time_left(n->expiration);
    if (n->error)
        printf(" (%s)", n->error);
    putchar('\n');
}

static bool equal(const struct nestnode *a, const struct nestnode *b)
{
    return a->size == 0 && b->size == 0 && !a->address && !b->address &&
           strcmp(a->name, b->name) == 0 && strcmp(a->state, b->state) == 0 &&
           a->nnodes == b->nnodes && a->ntasks == b->ntasks;
}

static void print_children(struct pstree *p, const struct nestnode *n)
{
    for (size_t i = 0, next; i < n->nchildren; i = next) {
        size_t len = strbuf_len(p->prefix);

        next = i + 1;
        while (p->compact && next < n->nchildren && equal(&n->children[i], &n->children[next]))
            next++;
        printf("%s%s", strbuf_str(p->prefix),
               next < n->nchildren ? p->style->branch : p->style->last);
        print_label(&n->children[i], next - i);
        strbuf_add(p->prefix, next < n->nchildren ? p->style->down : p->style->blank);
        print_children(p, &n->children[i]);
        strbuf_trunc(p->prefix, len);
    }
}

static int pstree(struct cmd *c, struct pstree *p, const char *where, bool json)
{
    uint64_t ids[NESTURI_LEVELS_MAX];
    struct nestchain ch = {0};
    struct nestnode *top = NULL;
    const char *uri = flux_default_uri();
    errmsg_t err;
    flux_t *h;
    int n = 0, rc = CMD_OK;

    if (where && (n = nesturi_path(where, ids, NESTURI_LEVELS_MAX, &err)) < 0)
        return cmd_usage_error(c, "%s", err.text);
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (n > 0) {
        if (nestchain_open(&ch, h, ids, (size_t)n, p->params.relay, 0., &err) < 0)
            return cmd_error(c, "%s", err.text);
        h = nestlink_handle(ch.links[n - 1]);
        uri = nestlink_uri(ch.links[n - 1]);
    }
    if (!(top = nesttree_load(h, uri, &p->params, &err)))
        rc = cmd_error(c, "%s", err.text);
    else if (json) {
        json_t *val = nesttree_json(top);
        rc = val ? cmd_print_json(c, val) : cmd_error(c, "out of memory");
    } else if (!(p->prefix = strbuf_create(0)))
        rc = cmd_error(c, "out of memory");
    else {
        print_label(top, 1);
        print_children(p, top);
    }
    strbuf_destroy(p->prefix);
    nesttree_destroy(top);
    nestchain_close(&ch);
    return rc;
}

int cmd_pstree(struct cmd *c, int argc, char **argv)
{
    struct pstree p = {.style = unicode_terminal() ? &unicode : &ascii};
    const char *val;
    bool json = false;
    uint32_t level;
    int key;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        switch (key) {
        case 'a':
            p.params.pending = p.params.ended = true;
            break;
        case 'p':
            p.params.pending = true;
            break;
        case 's':
            p.params.sessions = true;
            break;
        case 'c':
            p.compact = true;
            break;
        case 'L':
            if (cmd_parse_u32(c, "--level", val, &level) < 0)
                return CMD_USAGE;
            if (level == 0)
                return cmd_usage_error(c, "--level: must be at least 1");
            p.params.depth = level;
            break;
        case OPT_ASCII:
            p.style = &ascii;
            break;
        case OPT_JSON:
            json = true;
            break;
        default:
            p.params.relay = true;
            break;
        }
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind > 1)
        return cmd_usage_error(c, "at most one path of ids is expected");
    return pstree(c, &p, argv[c->optind], json);
}
