/* How a module gets its settings: one table, from which defaults, arguments and attributes are read.
 *
 *    static const struct setup_row rows[] = {
 *        SETUP_SECONDS("hb.period", struct ctx, period),
 *        SETUP_CALL("log.forward-level", set_forward_level),
 *        SETUP_END,
 *    };
 *
 * Type, default and range of a setting stand in libsettings/settings_table.h.  An argument NAME=VALUE of
 * the module stands for the attribute MODULE.NAME and takes precedence over it.
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
    SETUP_KIND_SECONDS = 1, /* double: DURATION; AGE, where "never" is infinity; NUMBER */
    SETUP_KIND_SIZE,        /* uint64_t: SIZE */
    SETUP_KIND_COUNT,       /* uint64_t: COUNT */
    SETUP_KIND_BOOL,        /* bool: BOOL */
    SETUP_KIND_CALL,        /* `set` is called with the text */
};

struct setup_row {
    const char *name; /* of the attribute */
    enum setup_kind kind;
    size_t offset;                                           /* of the member of the context */
    int (*set)(void *ctx, const char *value, errmsg_t *err); /* -1 with a sentence: refused */
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
/* After the member was stored `f` is called, which may refuse it: then it has its old value again. */
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
    /* All settings are known; called once, from the reactor or from setup_create().  May be NULL. */
    void (*ready)(void *ctx);
    /* An attribute has a value that is refused, or cannot be read for another reason than that it does not
     * exist.  What was set before stays.  NULL: the module ends with the sentence, and so fails to load
     * if the session is about to start. */
    void (*refused)(void *ctx, const char *sentence);
};

typedef struct setup setup_t;

/* Store the defaults of rows with a member, apply the arguments, and ask the broker for the attributes that
 * no argument stands for.  Where `refused` is NULL the module counts as loaded only when all are known
 * (flux_module_starting()).  NULL with EINVAL (an argument that is unknown, or refused) or ENOMEM, and a
 * sentence. */
setup_t *setup_create(flux_t *h, const struct setup_table *table, void *ctx, int argc, char **argv,
                      errmsg_t *err);
void setup_destroy(setup_t *s); /* NULL-safe, keeps errno */
bool setup_known(const setup_t *s);

/* For a module without settings: -1 with EINVAL and a sentence when it was given an argument. */
int setup_no_arguments(const char *module, int argc, char **argv, errmsg_t *err);
/* For a module of rank 0: -1 with EINVAL and a sentence elsewhere. */
int setup_root_only(flux_t *h, const char *module, errmsg_t *err);

#endif
