/* cmd_config.c - flux config: print the settings and their sources.
 *
 *    list    the table of libsettings; needs no session
 *    get     the same with the values in effect at a broker: the value of attr.list if one was set,
 *            with the source from attr.sources, otherwise the default
 */
#include "config.h"
#include <stdlib.h>
#include <string.h>

#include "cmd_all.h"
#include "libflux/attr_wire.h"
#include "libsettings/settings.h"
#include "libutil/nearest.h"

#define TIMEOUT 60.

/* --- list --- */

static int config_list(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'j', "json", NULL, "print JSON"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[OPTION...]", "Print all settings that exist: name, type, default, range and purpose.",
        opts, NULL, 0};
    const struct setting *s;
    table_t *t;
    char range[80];
    int key;
    bool json = false;

    while ((key = cmd_option(c, &usage, argc, argv, NULL)) > 0)
        json = true;
    if (key < 0)
        return cmd_option_exit(key);
    if (argc > c->optind)
        return cmd_usage_error(c, "no argument is expected");
    t = table_create();
    table_column(t, "name", "NAME", TABLE_LEFT);
    table_column(t, "type", "TYPE", TABLE_LEFT);
    table_column(t, "default", "DEFAULT", TABLE_LEFT);
    table_column(t, "range", "RANGE", TABLE_LEFT);
    table_column(t, "description", "DESCRIPTION", TABLE_LEFT);
    for (size_t i = 0; (s = settings_at(i)); i++) {
        table_row(t);
        table_str(t, s->name);
        table_str(t, settings_type_name(s));
        table_str(t, s->fallback ? s->fallback : "-");
        settings_range(s, range, sizeof(range));
        table_str(t, range[0] ? range : "-");
        table_str(t, s->what);
    }
    return cmd_print_table(c, t, json);
}

/* --- get --- */

struct got {
    flux_future_t *values_f, *sources_f;
    struct attr_all values, sources;
};

static int ask(struct cmd *c, uint32_t rank, struct got *g)
{
    flux_t *h = cmd_handle(c);

    if (!h)
        return -1;
    if (rank == FLUX_NODEID_ANY)
        rank = flux_rank(h);
    g->values_f = flux_rpc(h, "attr.list", NULL, rank, FLUX_MSGF_IDEMPOTENT);
    g->sources_f = flux_rpc(h, "attr.sources", NULL, rank, FLUX_MSGF_IDEMPOTENT);
    return cmd_wait_struct(c, g->values_f, TIMEOUT, "attr.list", &attr_all_schema, &g->values) <
                       0 ||
                   cmd_wait_struct(c, g->sources_f, TIMEOUT, "attr.sources", &attr_all_schema,
                                   &g->sources) < 0
               ? -1
               : 0;
}

/* A row, when the setting has a value. */
static void add_row(table_t *t, const struct got *g, const char *name, const struct setting *s)
{
    const char *value = json_string_value(json_object_get(g->values.attrs, name));
    const char *source = json_string_value(json_object_get(g->sources.attrs, name));

    if (!value) {
        value = s ? s->fallback : NULL;
        source = "default";
    } else if (s && s->type != SETTING_FIXED && source && strcmp(source, "broker") == 0) {
        source = "default";
    }
    table_row(t);
    table_str(t, name);
    table_str(t, value ? value : "-");
    table_str(t, source ? source : "-");
}

static int unknown(struct cmd *c, const char *name)
{
    const struct setting *s;
    struct nearest near;
    char words[160];

    nearest_init(&near, name);
    for (size_t i = 0; (s = settings_at(i)); i++)
        nearest_feed(&near, s->name);
    return cmd_error(c, "there is no setting '%s'%s", name,
                     near.n > 0 ? nearest_words(&near, words, sizeof(words))
                                : "; 'flux config list' prints all");
}

static int print_settings(struct cmd *c, const struct got *g, const char *only, bool json)
{
    const struct setting *s;
    const char *name;
    json_t *value;
    table_t *t = table_create();

    table_column(t, "name", "NAME", TABLE_LEFT);
    table_column(t, "value", "VALUE", TABLE_LEFT);
    table_column(t, "source", "SOURCE", TABLE_LEFT);
    for (size_t i = 0; (s = settings_at(i)); i++) {
        if (!only || strcmp(s->name, only) == 0)
            add_row(t, g, s->name, s);
    }
    /* What users set beside the table. */
    json_object_foreach(g->values.attrs, name, value)
    {
        if (!settings_find(name) && (!only || strcmp(name, only) == 0))
            add_row(t, g, name, NULL);
    }
    return cmd_print_table(c, t, json);
}

static int config_get(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'r', "rank", "RANK", "query the broker of this rank (default: the local broker)"},
        {'j', "json", NULL, "print JSON"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[OPTION...] [NAME]",
        "Print the settings in effect, or one of them, and the source of each: default, --set, a "
        "line\n"
        "of the configuration file, the environment, setattr, or the broker itself.",
        opts, NULL, 0};
    uint32_t rank = FLUX_NODEID_ANY;
    struct got g = {0};
    const char *val, *only;
    bool json = false;
    int key, rc = CMD_FAIL;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (key == 'j')
            json = true;
        else if (cmd_parse_u32(c, "--rank", val, &rank) < 0)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind > 1)
        return cmd_usage_error(c, "at most one NAME is expected");
    only = argv[c->optind];
    if (ask(c, rank, &g) == 0) {
        if (only && !settings_find(only) && !json_object_get(g.values.attrs, only))
            rc = unknown(c, only);
        else
            rc = print_settings(c, &g, only, json);
    }
    flux_future_destroy(g.values_f);
    flux_future_destroy(g.sources_f);
    return rc;
}

int cmd_config(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_sub subs[] = {
        {"get", config_get, "[OPTION...] [NAME]", "print the settings in effect and their sources"},
        {"list", config_list, "[OPTION...]", "print all settings that exist"},
        CMD_SUB_END,
    };

    return cmd_subcommand(c, "The settings of a session.", subs, argc, argv);
}
