/* Configuration files: Lua, evaluated in a sandbox.
 *
 * A file calls sections with a table each:
 *
 *     session {
 *         hosts = "node[0-3]",
 *         address = "tcp://%h:8050",
 *     }
 *
 * It may compute what it says (variables, functions, string.format...), but reaches nothing
 * outside: no files, no environment, no other code, a bounded number of instructions and bytes.
 * What sections and fields there are is said by a table of the caller; everything else is an error
 * that names file and line.
 *
 * A section may have entries without names, tables themselves, when the caller's table has fields
 * of a section of that name and "[]"; number i of them (from 1) is then read as section "NAME[i]".
 * A section that a caller does not look at, but others may, has the one field "*" of CONFIG_ANY.
 *
 * Thread rules: one thread per object.
 */
#ifndef CONFIG_CONFIGFILE_H
#define CONFIG_CONFIGFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

typedef struct config config_t;

enum config_type {
    CONFIG_STRING,
    CONFIG_BOOL,
    CONFIG_NUMBER,  /* a finite number */
    CONFIG_TEXT_OF, /* a string, or a function that makes one: config_text_of() */
    CONFIG_PAIRS,   /* a table of names with strings, numbers or booleans: config_pair() */
    CONFIG_AMOUNT,  /* a string or a finite number: config_string(), then config_number() */
    CONFIG_ANY,     /* anything, and not kept: for the field "*" */
};

struct config_field {
    const char *section;
    const char *name;
    enum config_type type;
    bool required; /* if the section is there at all */
};
#define CONFIG_FIELD_END                 \
    {                                    \
        NULL, NULL, CONFIG_STRING, false \
    }

/* Evaluate a file, or a text (`name` is used in sentences).  NULL with EINVAL and a sentence for
 * whatever is wrong with it, ENOENT and the like when it cannot be read, EFBIG above 1 MiB, ENOMEM.
 * `fields` must stay. */
config_t *config_load(const char *path, const struct config_field *fields, errmsg_t *err);
config_t *config_load_text(const char *text, size_t len, const char *name,
                           const struct config_field *fields, errmsg_t *err);
void config_destroy(config_t *c); /* NULL-safe, keeps errno */

const char *config_name(const config_t *c);
bool config_has(config_t *c, const char *section);
/* The line that calls a section; 0: it is not there. */
int config_line(config_t *c, const char *section);
/* How many entries without a name a section has. */
size_t config_count(config_t *c, const char *section);

/* Fields.  Strings live as long as the object. */
const char *config_string(config_t *c, const char *section, const char *name); /* NULL: absent */
bool config_bool(config_t *c, const char *section, const char *name, bool absent);
double config_number(config_t *c, const char *section, const char *name, double absent);

/* The text of a field for one host: in a string %h stands for the host, %r for the rank and %% for
 * one '%'; a function is called with rank and host.  Writes to `buf`.  1, or 0 when the field is
 * absent, or -1 with EINVAL and a sentence. */
int config_text_of(config_t *c, const char *section, const char *name, uint32_t rank,
                   const char *host, char *buf, size_t size, errmsg_t *err);

/* Number i of the pairs of a field, in no particular order: 1, or 0 beyond the end, or -1 with
 * ENOMEM.  The strings are freed by the caller. */
int config_pair(config_t *c, const char *section, const char *name, size_t i, char **key,
                char **value);

#endif
