/* settings.c - the table of all settings, and checks of their values.
 *
 * The table is in settings_table.h.  This file looks settings up and checks values.  A module that
 * reads a setting may check more (for example that a policy exists), but never gets a value of the
 * wrong type.  Files and directories are looked for at the start of a broker only: a file system
 * that hangs must not stop one that runs.
 *
 * Failure: an error message that names setting, value and what was expected.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libsettings/settings.h"
#include "libutil/duration.h"
#include "libutil/filetrust.h"
#include "libutil/nearest.h"
#include "libutil/size.h"
#include "libutil/strutil.h"

#define FREE_PREFIX "user."

static const struct setting table[] = {
#define ROW(name, reader, type, fallback, ...) \
    {name, reader, SETTING_##type, fallback, __VA_ARGS__},
#include "libsettings/settings_table.h"
#undef ROW
};
#define COUNT (sizeof(table) / sizeof(table[0]))

const struct setting *settings_at(size_t i)
{
    return i < COUNT ? &table[i] : NULL;
}

const struct setting *settings_find(const char *name)
{
    size_t lo = 0, hi = COUNT;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = strcmp(name, table[mid].name);

        if (c == 0)
            return &table[mid];
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

const char *settings_type_name(const struct setting *s)
{
    static const char *const names[] = {
        [SETTING_TEXT] = "text",
        [SETTING_BOOL] = "yes or no",
        [SETTING_COUNT] = "integer",
        [SETTING_NUMBER] = "number",
        [SETTING_SIZE] = "size",
        [SETTING_DURATION] = "duration",
        [SETTING_AGE] = "duration or never",
        [SETTING_WORD] = "word",
        [SETTING_PROGRAM] = "program",
        [SETTING_DIR] = "directory",
        [SETTING_DIRS] = "directories",
        [SETTING_FIXED] = "fixed",
    };

    return names[s->type];
}

/* Format a limit of the range. */
static const char *bound(const struct setting *s, double value, char *buf, size_t size)
{
    if (s->type == SETTING_SIZE)
        return size_format((uint64_t)value, buf, size);
    if (s->type == SETTING_DURATION || s->type == SETTING_AGE)
        return duration_format(value, buf, size);
    snprintf(buf, size, "%.0f", value);
    return buf;
}

const char *settings_range(const struct setting *s, char *buf, size_t size)
{
    char min[32], max[32];

    if (s->words)
        snprintf(buf, size, "%s", s->words);
    else if (s->type == SETTING_TEXT || s->type == SETTING_BOOL || s->type == SETTING_FIXED ||
             (s->min <= 0 && isinf(s->max)))
        snprintf(buf, size, "%s", "");
    else if (isinf(s->max))
        snprintf(buf, size, "from %s", bound(s, s->min, min, sizeof(min)));
    else
        snprintf(buf, size, "%s to %s", bound(s, s->min, min, sizeof(min)),
                 bound(s, s->max, max, sizeof(max)));
    return buf;
}

static int in_range(const struct setting *s, const char *value, double number, errmsg_t *err)
{
    char range[80];

    if (number >= s->min && number <= s->max)
        return 0;
    return errmsg_fail(err, EINVAL, "%s=%.60s: the range is %s", s->name, value,
                       settings_range(s, range, sizeof(range)));
}

static bool is_word(const char *words, const char *value)
{
    size_t len = strlen(value);

    for (const char *p = words; p && *p; p += strcspn(p, ","), p += *p == ',') {
        if (len == strcspn(p, ",") && strncmp(p, value, len) == 0)
            return true;
    }
    return false;
}

static int check_word(const struct setting *s, const char *value, errmsg_t *err)
{
    char copy[128], words[80], *save = NULL;
    struct nearest near;

    if (is_word(s->words, value))
        return 0;
    nearest_init(&near, value);
    snprintf(copy, sizeof(copy), "%s", s->words);
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save))
        nearest_feed(&near, word);
    return errmsg_fail(err, EINVAL, "%s=%.60s: expected one of %s%s", s->name, value, s->words,
                       nearest_words(&near, words, sizeof(words)));
}

static int check_value(const struct setting *s, const char *value, errmsg_t *err)
{
    double seconds;
    uint64_t n;
    bool yes;
    char *end;
    errmsg_t why;

    switch (s->type) {
    case SETTING_TEXT:
    case SETTING_PROGRAM:
    case SETTING_DIRS:
        return 0;
    case SETTING_DIR:
        if (value[0] == '/' || value[0] == '\0' || is_word(s->words, value))
            return 0;
        return errmsg_fail(err, EINVAL, "%s=%.150s: expected a directory, from '/'%s%s", s->name,
                           value, s->words ? ", or " : "", s->words ? s->words : "");
    case SETTING_BOOL:
        if (str2bool(value, &yes) == 0)
            return 0;
        return errmsg_fail(err, EINVAL, "%s=%.60s: expected yes or no", s->name, value);
    case SETTING_COUNT:
        if (str2u64(value, &n) == 0)
            return in_range(s, value, (double)n, err);
        return errmsg_fail(err, EINVAL, "%s=%.60s: expected a number", s->name, value);
    case SETTING_NUMBER:
        seconds = value[0] >= '0' && value[0] <= '9' ? strtod(value, &end) : -1.;
        if (seconds >= 0. && *end == '\0')
            return in_range(s, value, seconds, err);
        return errmsg_fail(err, EINVAL, "%s=%.60s: expected a number", s->name, value);
    case SETTING_SIZE:
        if (size_parse(value, &n, &why) == 0)
            return in_range(s, value, (double)n, err);
        return errmsg_fail(err, EINVAL, "%s=%.60s: %.150s", s->name, value, why.text);
    case SETTING_AGE:
        if (strcmp(value, "never") == 0)
            return 0;
        /* fall through */
    case SETTING_DURATION:
        if (duration_parse(value, &seconds, &why) == 0)
            return in_range(s, value, seconds, err);
        return errmsg_fail(err, EINVAL, "%s=%.60s: %.150s", s->name, value, why.text);
    case SETTING_WORD:
        return check_word(s, value, err);
    case SETTING_FIXED:
        break;
    }
    return errmsg_fail(err, EPERM, "%s cannot be set: it is fixed (%s)", s->name, s->what);
}

int settings_check(const char *name, const char *value, errmsg_t *err)
{
    const struct setting *s = settings_find(name);
    struct nearest near;
    char words[160];

    if (s)
        return check_value(s, value, err);
    if (str_starts(name, FREE_PREFIX))
        return 0;
    nearest_init(&near, name);
    for (size_t i = 0; i < COUNT; i++) {
        if (table[i].type != SETTING_FIXED)
            nearest_feed(&near, table[i].name);
    }
    return errmsg_fail(err, ENOENT, "there is no setting '%.60s'%s", name,
                       near.n > 0 ? nearest_words(&near, words, sizeof(words))
                                  : "; 'flux config list' prints all");
}

static int check_program(const char *name, const char *path, errmsg_t *err)
{
    struct stat st;
    errmsg_t why;

    if (stat(path, &st) < 0)
        return errmsg_fail(err, errno, "%s=%.150s: %s", name, path, strerror(errno));
    if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
        return errmsg_fail(err, EACCES, "%s=%.150s: it is not a program that can be executed", name,
                           path);
    if (!file_is_trusted(path, &why))
        return errmsg_fail(err, errno, "%s: %s", name, why.text);
    return 0;
}

int settings_check_dirs(const char *name, const char *dirs, errmsg_t *err)
{
    char *path;
    struct stat st;
    int rc = 0;

    for (const char *d = dirs; *d && rc == 0; d += *d == ':') {
        size_t len = strcspn(d, ":");

        if (!(path = strndup(d, len)))
            return errmsg_fail(err, ENOMEM, "out of memory");
        if (len > 0 && stat(path, &st) < 0)
            rc = errmsg_fail(err, errno, "%s: the directory %.150s: %s", name, path,
                             strerror(errno));
        else if (len > 0 && !S_ISDIR(st.st_mode))
            rc = errmsg_fail(err, ENOTDIR, "%s: %.150s is not a directory", name, path);
        free(path);
        d += len;
    }
    return rc;
}

int settings_check_here(const char *name, const char *value, errmsg_t *err)
{
    const struct setting *s = settings_find(name);

    if (settings_check(name, value, err) < 0)
        return -1;
    if (!s || value[0] == '\0' || is_word(s->words, value))
        return 0;
    if (s->type == SETTING_PROGRAM)
        return check_program(name, value, err);
    if (s->type == SETTING_DIR || s->type == SETTING_DIRS)
        return settings_check_dirs(name, value, err);
    return 0;
}

int settings_check_argument(const char *module, const char *arg, errmsg_t *err)
{
    const char *eq = strchr(arg, '=');
    size_t n = strlen(module), nrows = 0;
    char name[80], words[160];
    struct nearest near;

    snprintf(name, sizeof(name), "%.*s", (int)(eq ? eq - arg : (ptrdiff_t)strlen(arg)), arg);
    nearest_init(&near, name);
    for (size_t i = 0; i < COUNT; i++) {
        const char *rest = table[i].name + n + 1;

        if (strncmp(table[i].name, module, n) != 0 || table[i].name[n] != '.')
            continue;
        nrows++;
        if (eq && strcmp(rest, name) == 0)
            return check_value(&table[i], eq + 1, err);
        nearest_feed(&near, rest);
    }
    if (nrows == 0)
        return 0;
    if (!eq)
        return errmsg_fail(err, EINVAL, "module %s: an argument is NAME=VALUE, not '%.60s'", module,
                           arg);
    return errmsg_fail(err, ENOENT, "module %s has no setting '%s'%s", module, name,
                       near.n > 0 ? nearest_words(&near, words, sizeof(words))
                                  : "; 'flux config list' prints all");
}
