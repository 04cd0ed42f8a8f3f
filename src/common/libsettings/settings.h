/* The settings of a session: every attribute that a broker or a module reads, with type, default
 * and range, in one table.
 *
 * To add a setting, add a row to settings_table.h and read the attribute in the module.  Without
 * the row, `flux start --set` refuses the setting, and t/settings.t reports its name in the
 * sources.  Settings are read once: by a module when it is loaded, or by the broker when it starts.
 *
 * Thread rules: any thread.
 */
#ifndef SETTINGS_SETTINGS_H
#define SETTINGS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "libutil/errmsg.h"

enum setting_type {
    SETTING_TEXT,     /* any text; its reader checks it */
    SETTING_BOOL,     /* yes, no... */
    SETTING_COUNT,    /* an integer from 0 */
    SETTING_NUMBER,   /* a decimal number from 0 */
    SETTING_SIZE,     /* bytes: 64M */
    SETTING_DURATION, /* 1.5h */
    SETTING_AGE,      /* a duration, or "never" */
    SETTING_WORD,     /* one of the words in `words` */
    SETTING_PROGRAM,  /* a file that can be executed, and that only its user and root can change */
    SETTING_DIR,      /* a directory, or one of `words` */
    SETTING_DIRS,     /* directories, separated by ':' */
    SETTING_FIXED,    /* set by the broker itself only */
};

struct setting {
    const char *name;
    const char *reader; /* the module that reads it; NULL: the broker */
    enum setting_type type;
    const char *fallback; /* the default as a user would write it; NULL: none, see `what` */
    double min, max;      /* limits of COUNT, SIZE (bytes), DURATION and AGE (seconds), inclusive */
    const char *words;    /* separated by commas */
    const char *what;     /* one line */
};

/* The i-th setting in the order of names; NULL beyond the last. */
const struct setting *settings_at(size_t i);
const struct setting *settings_find(const char *name);

/* May `name` be set to `value`?  Names that begin with "user." may have any value.  0, or -1 with
 * ENOENT (no such setting, with a suggestion), EPERM (it cannot be set) or EINVAL (invalid value),
 * and an error message. */
int settings_check(const char *name, const char *value, errmsg_t *err);

/* The same, and check that the file or directory in the value exists on this host.  Reads the file
 * system, which may take long: only for the start. */
int settings_check_here(const char *name, const char *value, errmsg_t *err);
/* Is each of `dirs`, separated by ':', a directory?  -1 with errno and an error message. */
int settings_check_dirs(const char *name, const char *dirs, errmsg_t *err);

/* May a module be loaded with this argument, NAME=VALUE, which stands for the setting MODULE.NAME?
 * A module without settings in the table accepts any argument.  Errors as for settings_check(). */
int settings_check_argument(const char *module, const char *arg, errmsg_t *err);

/* "a duration", "4K to 1G"...; returns `buf`. */
const char *settings_type_name(const struct setting *s);
const char *settings_range(const struct setting *s, char *buf, size_t size);

#endif
