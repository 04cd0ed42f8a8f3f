/* cmd_attr.c - flux getattr, setattr, lsattr: attributes of a broker.
 *
 * Each asks one broker, by default the local one (-r RANK: another).  setattr of a setting says
 * when it will be read.
 *
 * Failure: exit code 1 and the error message of the broker, for example for an attribute that does
 * not exist or cannot be set.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_all.h"
#include "libflux/attr_wire.h"
#include "libsettings/settings.h"

#define TIMEOUT 60.

static const struct cmd_opt opts[] = {
    {'r', "rank", "RANK", "query the broker of this rank (default: the local broker)"},
    CMD_OPT_END,
};
static const struct cmd_opt list_opts[] = {
    {'r', "rank", "RANK", "query the broker of this rank (default: the local broker)"},
    {'j', "json", NULL, "print a JSON object"},
    CMD_OPT_END,
};

struct options {
    uint32_t rank;
    bool json;
};

/* Options and number of operands.  0, or an exit code plus 1. */
static int parse(struct cmd *c, const struct cmd_usage *u, int argc, char **argv, int operands,
                 struct options *o)
{
    const char *val;
    int key;

    o->rank = FLUX_NODEID_ANY;
    o->json = false;
    while ((key = cmd_option(c, u, argc, argv, &val)) > 0) {
        if (key == 'j')
            o->json = true;
        else if (cmd_parse_u32(c, "--rank", val, &o->rank) < 0)
            return 1 + CMD_USAGE;
    }
    if (key < 0)
        return 1 + cmd_option_exit(key);
    if (argc - c->optind != operands)
        return 1 + cmd_usage_error(c, operands == 0   ? "no argument is expected"
                                      : operands == 1 ? "one NAME is required"
                                                      : "NAME and VALUE are required");
    return 0;
}

static uint32_t target(flux_t *h, const struct options *o)
{
    return o->rank == FLUX_NODEID_ANY ? flux_rank(h) : o->rank;
}

static void say_when(const char *name)
{
    const struct setting *s = settings_find(name);

    if (s && s->reader)
        fprintf(stderr, "flux setattr: %s is in effect when module %s is reloaded\n", name,
                s->reader);
    else if (s)
        fprintf(stderr,
                "flux setattr: %s is not in effect in this session: brokers read it when they "
                "start\n",
                name);
}

/* Both commands: one request, of the name alone or of name and value. */
static int ask(struct cmd *c, const struct cmd_usage *u, int argc, char **argv, bool set)
{
    const char *topic = set ? "attr.set" : "attr.get";
    struct attr_pair a = {0};
    struct options o;
    int rc = parse(c, u, argc, argv, set ? 2 : 1, &o);
    flux_future_t *f;
    flux_t *h;

    if (rc)
        return rc - 1;
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    a.name = argv[c->optind];
    if (set)
        a.value = argv[c->optind + 1];
    f = flux_rpc_struct(h, topic, set ? &attr_pair_schema : &attr_name_schema, &a, target(h, &o),
                        set ? 0 : FLUX_MSGF_IDEMPOTENT);
    rc = CMD_FAIL;
    if (set) {
        if ((rc = cmd_wait(c, f, TIMEOUT, topic) < 0 ? CMD_FAIL : CMD_OK) == CMD_OK)
            say_when(a.name);
    } else if (cmd_wait_struct(c, f, TIMEOUT, topic, &attr_pair_schema, &a) == 0)
        rc = puts(a.value) < 0 ? CMD_FAIL : CMD_OK;
    flux_future_destroy(f);
    return rc;
}

int cmd_getattr(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...] NAME", "Print the value of an attribute of the broker.", opts, NULL, 0,
    };
    return ask(c, &usage, argc, argv, false);
}

int cmd_setattr(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...] NAME VALUE",
        "Set an attribute of the broker, if it can be changed.  A setting has an effect only when "
        "the\n"
        "module that reads it is loaded again.",
        opts,
        NULL,
        0,
    };
    return ask(c, &usage, argc, argv, true);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int print_list(struct cmd *c, json_t *attrs)
{
    size_t n = json_object_size(attrs);
    const char **names = malloc((n + 1) * sizeof(*names));
    table_t *t = table_create();
    const char *name;
    json_t *value;
    size_t i = 0;

    if (!names) {
        table_destroy(t);
        return cmd_error(c, "out of memory");
    }
    json_object_foreach(attrs, name, value)
    {
        names[i++] = name;
    }
    qsort(names, n, sizeof(*names), compare);
    table_column(t, "name", "NAME", TABLE_LEFT);
    table_column(t, "value", "VALUE", TABLE_LEFT);
    for (i = 0; i < n; i++) {
        table_row(t);
        table_str(t, names[i]);
        table_str(t, json_string_value(json_object_get(attrs, names[i])));
    }
    free(names);
    return cmd_print_table(c, t, false);
}

int cmd_lsattr(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...]", "Print all attributes of the broker.", list_opts, NULL, 0,
    };
    struct options o;
    int rc = parse(c, &usage, argc, argv, 0, &o);
    flux_future_t *f;
    struct attr_all l;
    flux_t *h;

    if (rc)
        return rc - 1;
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    f = flux_rpc(h, "attr.list", NULL, target(h, &o), FLUX_MSGF_IDEMPOTENT);
    rc = CMD_FAIL;
    if (cmd_wait_struct(c, f, TIMEOUT, "attr.list", &attr_all_schema, &l) == 0)
        rc = o.json ? cmd_print_json(c, json_incref(l.attrs)) : print_list(c, l.attrs);
    flux_future_destroy(f);
    return rc;
}
