/* Configuration files: Lua, evaluated in a sandbox.
 *
 * A file calls each section with a table:
 *
 *     session {
 *         hosts = "node[0-3]",
 *         address = "tcp://%h:8050",
 *     }
 *
 * It may compute values (with variables, functions, string.format...), but has no access to files,
 * the environment or other code, and is limited in instructions and memory.  The caller's table
 * defines the sections and fields; anything else is an error that names file and line.
 *
 * A section may have unnamed entries, which are tables themselves, if the caller's table has fields
 * of a section with that name and "[]".  The i-th of them (from 1) is read as section "NAME[i]". A
 * section that other programs read has the single field "*" of CONFIG_ANY.
 *
 * Thread rules: one thread per object.
 */
#ifndef CONFIG_CONFIG_FILE_H
#define CONFIG_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

typedef struct config config_t;

enum config_type {
    CONFIG_STRING,
    CONFIG_BOOL,
    CONFIG_NUMBER,  /* a finite number */
    CONFIG_TEXT_OF, /* a string, or a function that returns one: config_text_of() */
    CONFIG_PAIRS,   /* a table of names and strings, numbers or booleans: config_pair() */
    CONFIG_AMOUNT,  /* a string or a finite number: config_string(), then config_number() */
    CONFIG_ANY,     /* anything, and not stored: for the field "*" */
};

struct config_field {
    const char *section;
    const char *name;
    enum config_type type;
    bool required; /* if the section exists */
};
#define CONFIG_FIELD_END                 \
    {                                    \
        NULL, NULL, CONFIG_STRING, false \
    }

/* Evaluate a file, or a text (`name` appears in messages).  NULL with an error message and errno:
 * EINVAL for any error in the text, ENOENT and the like if the file cannot be read, EFBIG if it has
 * more than 1 MiB, or ENOMEM. `fields` must outlive the result. */
config_t *config_load(const char *path, const struct config_field *fields, errmsg_t *err);
config_t *config_load_text(const char *text, size_t len, const char *name,
                           const struct config_field *fields, errmsg_t *err);
void config_destroy(config_t *c); /* NULL-safe, keeps errno */

const char *config_name(const config_t *c);
bool config_has(config_t *c, const char *section);
/* The line that calls a section; 0: there is none. */
int config_line(config_t *c, const char *section);
/* Number of unnamed entries of a section. */
size_t config_count(config_t *c, const char *section);

/* Fields.  Strings are valid as long as the object. */
const char *config_string(config_t *c, const char *section, const char *name); /* NULL: absent */
bool config_bool(config_t *c, const char *section, const char *name, bool absent);
double config_number(config_t *c, const char *section, const char *name, double absent);

/* The text of a field for one host.  In a string, %h stands for the host, %r for the rank and %%
 * for '%'; a function is called with rank and host.  Writes the text to `buf`.  1; 0 if the field
 * is absent; or -1 with EINVAL and an error message. */
int config_text_of(config_t *c, const char *section, const char *name, uint32_t rank,
                   const char *host, char *buf, size_t size, errmsg_t *err);

/* The i-th pair of a field, in no particular order: 1, or 0 beyond the last pair, or -1 with
 * ENOMEM. The caller frees the strings. */
int config_pair(config_t *c, const char *section, const char *name, size_t i, char **key,
                char **value);

#endif
