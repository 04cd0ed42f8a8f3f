/* setup.c - how a module gets its settings.
 *
 *    source of a value    used                           an invalid value
 *    argument             always                         setup_create() fails
 *    attribute            without an argument            `refused` is called, or the module ends
 *    default              without either; numbers and   the table is wrong: setup_create() fails
 *                         booleans only
 *
 * Attributes are requested in the order of the rows, and the responses are processed in that order:
 * a row may rely on the rows before it.
 *
 * Invariants:
 *  1. `ready` is called once, after the last row was set; never if the module ends before.
 *  2. A member never has a value that settings_check() refuses.  The setter of a row without a
 *     member checks values itself.
 *
 * Failure: an attribute that does not exist means the default.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/attr.h"
#include "libflux/module.h"
#include "libsettings/settings.h"
#include "libutil/duration.h"
#include "libutil/size.h"
#include "libutil/strutil.h"
#include "setup.h"

struct pending {
    setup_t *s;
    const struct setup_row *row;
    flux_future_t *f;
};

struct setup {
    flux_t *h;
    const struct setup_table *table;
    void *ctx;
    size_t nrows;
    size_t left;
    struct pending pending[];
};

static int set_text(char **member, const char *value, errmsg_t *err)
{
    char *copy = strdup(value);

    if (!copy)
        return errmsg_fail(err, ENOMEM, "out of memory");
    free(*member);
    *member = copy;
    return 0;
}

/* Store a value that settings_check() has accepted. */
static int parse(const struct setup_row *row, void *p, const char *value, errmsg_t *err)
{
    switch (row->kind) {
    case SETUP_KIND_SECONDS:
        if (strcmp(value, "never") == 0) {
            *(double *)p = HUGE_VAL;
            return 0;
        }
        return duration_parse(value, p, err);
    case SETUP_KIND_SIZE:
        return size_parse(value, p, err);
    case SETUP_KIND_COUNT:
        return str2u64(value, p);
    case SETUP_KIND_BOOL:
        return str2bool(value, p);
    case SETUP_KIND_TEXT:
        return set_text(p, value, err);
    case SETUP_KIND_CALL:
        break;
    }
    return 0;
}

static size_t member_size(const struct setup_row *row)
{
    return row->kind == SETUP_KIND_CALL ? 0 : row->kind == SETUP_KIND_BOOL ? sizeof(bool) : 8;
}

static int store(const struct setup_row *row, void *ctx, const char *value, errmsg_t *err)
{
    void *p = (char *)ctx + row->offset;
    char old[8];

    memcpy(old, p, member_size(row));
    if (parse(row, p, value, err) == 0 && (!row->set || row->set(ctx, value, err) == 0))
        return 0;
    memcpy(p, old, member_size(row));
    return -1;
}

static int apply(const struct setup_row *row, void *ctx, const char *value, errmsg_t *err)
{
    const struct setting *known = settings_find(row->name);

    /* The broker has set a fixed setting, so its value is valid. */
    if (row->kind != SETUP_KIND_CALL && known && known->type != SETTING_FIXED &&
        settings_check(row->name, value, err) < 0)
        return -1;
    return store(row, ctx, value, err);
}

static int apply_default(const struct setup_row *row, void *ctx, errmsg_t *err)
{
    const struct setting *known = settings_find(row->name);

    if (row->kind == SETUP_KIND_CALL || row->kind == SETUP_KIND_TEXT)
        return 0;
    if (!known || !known->fallback)
        return errmsg_fail(err, EINVAL, "setting %s has no default", row->name);
    return store(row, ctx, known->fallback, err);
}

static void known(setup_t *s)
{
    if (!s->table->refused)
        flux_module_started(s->h);
    if (s->table->ready)
        s->table->ready(s->ctx);
}

static void refuse(setup_t *s, const struct setup_row *row, const errmsg_t *why)
{
    errmsg_t sentence;

    errmsg_set(&sentence, "attribute %s: %s", row->name, why->text);
    if (s->table->refused) {
        s->table->refused(s->ctx, sentence.text);
        return;
    }
    flux_module_fail(s->h, EINVAL, "%s", sentence.text);
    flux_reactor_stop(flux_get_reactor(s->h), -1);
}

static void attr_cb(flux_future_t *f, void *arg)
{
    struct pending *p = arg;
    setup_t *s = p->s;
    const char *value;
    errmsg_t err;
    int rc = flux_attr_future_get(f, &value, &err);

    /* ENOENT, or a broker without attributes, means the default. */
    if (rc < 0 && (errno == ENOENT || errno == ENOSYS))
        rc = 0;
    else if (rc == 0)
        rc = apply(p->row, s->ctx, value, &err);
    flux_future_destroy(f);
    p->f = NULL;
    if (rc < 0)
        refuse(s, p->row, &err);
    if (rc < 0 && !s->table->refused)
        return;
    if (--s->left == 0)
        known(s);
}

/* The row to which an argument refers, and its value; NULL: none. */
static const struct setup_row *row_of(const struct setup_table *t, const char *arg,
                                      const char **value)
{
    size_t n = strlen(t->module);
    const char *eq = strchr(arg, '=');

    for (const struct setup_row *row = t->rows; eq && row->name; row++) {
        if (strncmp(row->name, t->module, n) == 0 && row->name[n] == '.' &&
            strncmp(row->name + n + 1, arg, (size_t)(eq - arg)) == 0 &&
            row->name[n + 1 + (size_t)(eq - arg)] == '\0') {
            *value = eq + 1;
            return row;
        }
    }
    return NULL;
}

static int ask(setup_t *s, const struct setup_row *row)
{
    struct pending *p = &s->pending[row - s->table->rows];

    p->s = s;
    p->row = row;
    if (!(p->f = flux_attr_get_async(s->h, row->name)) ||
        flux_future_then(p->f, -1., attr_cb, p) < 0)
        return -1;
    s->left++;
    return 0;
}

/* In the order of the rows, apply arguments and request attributes. */
static int begin(setup_t *s, const char **said, errmsg_t *err)
{
    for (size_t i = 0; i < s->nrows; i++) {
        const struct setup_row *row = &s->table->rows[i];

        if (apply_default(row, s->ctx, err) < 0)
            return -1;
        if (said[i] ? apply(row, s->ctx, said[i], err) < 0 : ask(s, row) < 0)
            return said[i] ? -1
                           : errmsg_fail(err, ENOMEM, "the %s module is out of memory",
                                         s->table->module);
    }
    return 0;
}

setup_t *setup_create(flux_t *h, const struct setup_table *table, void *ctx, int argc, char **argv,
                      errmsg_t *err)
{
    const char **said = NULL, *value;
    size_t n = 0;
    setup_t *s;

    while (table->rows[n].name)
        n++;
    if (!(s = calloc(1, sizeof(*s) + n * sizeof(s->pending[0]))) ||
        !(said = calloc(n + 1, sizeof(*said)))) {
        errmsg_fail(err, ENOMEM, "the %s module is out of memory", table->module);
        goto fail;
    }
    s->h = h;
    s->table = table;
    s->ctx = ctx;
    s->nrows = n;
    for (int i = 0; i < argc; i++) {
        const struct setup_row *row = row_of(table, argv[i], &value);

        if (!row) {
            errmsg_fail(err, EINVAL, "the %s module has no argument '%s'", table->module, argv[i]);
            goto fail;
        }
        said[row - table->rows] = value;
    }
    if (begin(s, said, err) < 0)
        goto fail;
    free(said);
    if (s->left > 0 && !table->refused)
        flux_module_starting(h);
    else if (s->left == 0)
        known(s);
    return s;
fail:
    free(said);
    setup_destroy(s);
    return NULL;
}

void setup_destroy(setup_t *s)
{
    int saved = errno;

    if (!s)
        return;
    for (size_t i = 0; i < s->nrows; i++)
        flux_future_destroy(s->pending[i].f);
    free(s);
    errno = saved;
}

bool setup_known(const setup_t *s)
{
    return s && s->left == 0;
}

int setup_no_arguments(const char *module, int argc, char **argv, errmsg_t *err)
{
    if (argc == 0)
        return 0;
    return errmsg_fail(err, EINVAL, "the %s module takes no arguments: '%s'", module, argv[0]);
}

int setup_root_only(flux_t *h, const char *module, errmsg_t *err)
{
    if (flux_is_root(h))
        return 0;
    return errmsg_fail(err, EINVAL, "the %s module runs at rank 0 only, not at rank %u", module,
                       flux_rank(h));
}
