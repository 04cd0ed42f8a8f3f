/* How a module gets its settings: one table for defaults, arguments and attributes.
 *
 *    static const struct setup_row rows[] = {
 *        SETUP_SECONDS("hb.period", struct ctx, period),
 *        SETUP_CALL("log.forward-level", set_forward_level),
 *        SETUP_END,
 *    };
 *
 * libsettings/settings_table.h defines type, default and range of a setting.  An argument
 * NAME=VALUE of the module overrides the attribute MODULE.NAME.
 *
 * Thread rules: those of the handle.
 */
#ifndef SERVICE_SETUP_H
#define SERVICE_SETUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libflux/handle.h"
#include "libutil/errmsg.h"

enum setup_kind {
    SETUP_KIND_SECONDS = 1, /* double: DURATION; AGE, where "never" is infinite; NUMBER */
    SETUP_KIND_SIZE,        /* uint64_t: SIZE */
    SETUP_KIND_COUNT,       /* uint64_t: COUNT */
    SETUP_KIND_BOOL,        /* bool: BOOL */
    SETUP_KIND_TEXT,        /* char *: any; the module frees it.  NULL by default */
    SETUP_KIND_CALL,        /* `set` is called with the text */
};

struct setup_row {
    const char *name; /* name of the attribute */
    enum setup_kind kind;
    size_t offset;                                           /* of the member in the context */
    int (*set)(void *ctx, const char *value, errmsg_t *err); /* -1 with an error message: refused */
};

/* clang-format off */
#define SETUP_ROW_(NAME, S, m, ctype, KIND, f)                                             \
    {                                                                                      \
        .name = (NAME), .kind = (KIND), .set = (f),                                        \
        .offset = offsetof(S, m) +                                                         \
            0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((S *)0)->m), ctype)   \
                                ? 1 : -1])                                                 \
    }
/* clang-format on */
#define SETUP_SECONDS(NAME, S, m) SETUP_ROW_(NAME, S, m, double, SETUP_KIND_SECONDS, NULL)
#define SETUP_SIZE(NAME, S, m) SETUP_ROW_(NAME, S, m, uint64_t, SETUP_KIND_SIZE, NULL)
#define SETUP_COUNT(NAME, S, m) SETUP_ROW_(NAME, S, m, uint64_t, SETUP_KIND_COUNT, NULL)
#define SETUP_BOOL(NAME, S, m) SETUP_ROW_(NAME, S, m, bool, SETUP_KIND_BOOL, NULL)
#define SETUP_TEXT(NAME, S, m) SETUP_ROW_(NAME, S, m, char *, SETUP_KIND_TEXT, NULL)
/* `f` is called after the member was stored, and may refuse it; then the old value is restored. */
#define SETUP_COUNT_THEN(NAME, S, m, f) SETUP_ROW_(NAME, S, m, uint64_t, SETUP_KIND_COUNT, f)
#define SETUP_SIZE_THEN(NAME, S, m, f) SETUP_ROW_(NAME, S, m, uint64_t, SETUP_KIND_SIZE, f)
#define SETUP_CALL(NAME, f)                                 \
    {                                                       \
        .name = (NAME), .kind = SETUP_KIND_CALL, .set = (f) \
    }
#define SETUP_END               \
    {                           \
        .name = NULL, .kind = 0 \
    }

struct setup_table {
    const char *module;
    const struct setup_row *rows;
    /* All settings are known.  Called once, from the reactor or from setup_create().  May be
     * NULL. */
    void (*ready)(void *ctx);
    /* An attribute has an invalid value, or cannot be read although it exists.  The earlier value
     * stays.  NULL: the module ends with the error message, and fails to load if it was not loaded
     * yet. */
    void (*refused)(void *ctx, const char *sentence);
};

typedef struct setup setup_t;

/* Store the defaults of rows with a member, apply the arguments, and ask the broker for the other
 * attributes.  If `refused` is NULL, the module is loaded only when all are known
 * (flux_module_starting()).  NULL with EINVAL (an unknown or invalid argument) or ENOMEM, and an
 * error message. */
setup_t *setup_create(flux_t *h, const struct setup_table *table, void *ctx, int argc, char **argv,
                      errmsg_t *err);
void setup_destroy(setup_t *s); /* NULL-safe, keeps errno */
bool setup_known(const setup_t *s);

/* For a module without settings: -1 with EINVAL and an error message if it has an argument. */
int setup_no_arguments(const char *module, int argc, char **argv, errmsg_t *err);
/* For a module of rank 0: -1 with EINVAL and an error message at other ranks. */
int setup_root_only(flux_t *h, const char *module, errmsg_t *err);

#endif
