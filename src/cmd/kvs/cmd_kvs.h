/* What the files of flux kvs share: arguments, values as text, commits, listings.
 *
 * Functions print the error message when they fail, and then return CMD_FAIL (or CMD_USAGE), NULL
 * or -1.
 */
#ifndef CMD_CMD_KVS_H
#define CMD_CMD_KVS_H

#include <stdio.h>

#include "../cmd.h"
#include "libkvs/kvs.h"

/* Say what is wrong with a key, whose name is in most error messages already. */
int kvs_key_error(struct cmd *c, const char *key, const errmsg_t *err);

/* The one exit code of its own: a guard did not hold, so nothing was changed. */
enum { KVS_GUARD_FAILED = 3 };

/* --- arguments (cmd_kvs.c) --- */

#define KVS_IF_TAG_MAX 16

struct kvs_args {
    const char *ns; /* NULL: primary */
    const char *at;
    const char *at_key;
    bool raw;
    bool json;
    bool recursive;
    bool long_form;
    bool must_exist;
    bool append;
    bool if_absent;
    bool tag;
    bool info;
    bool jobs;
    const char *if_tag[KVS_IF_TAG_MAX];
    size_t n_if_tag;
    uint64_t count; /* 0: not said */
    double timeout; /* < 0: none */
    uint32_t owner;
    uint32_t rank;
    int argc; /* operands */
    char **argv;
};

enum {
    KVS_KEY_RAW = CMD_KEY(0),
    KVS_KEY_AT = CMD_KEY(1),
    KVS_KEY_APPEND = CMD_KEY(2),
    KVS_KEY_IF_ABSENT = CMD_KEY(3),
    KVS_KEY_IF_TAG = CMD_KEY(4),
    KVS_KEY_TAG = CMD_KEY(5),
    KVS_KEY_INFO = CMD_KEY(6),
    KVS_KEY_AT_KEY = CMD_KEY(7),
    KVS_KEY_OWNER = CMD_KEY(8),
    KVS_KEY_JOBS = CMD_KEY(9),
};

#define KVS_OPT_AT                                                                     \
    {                                                                                  \
        KVS_KEY_AT, "at", "ROOTREF", "read from this past root (see flux kvs version)" \
    }
#define KVS_OPT_JSON                    \
    {                                   \
        'j', "json", NULL, "print JSON" \
    }
#define KVS_OPT_NS                                                                                \
    {                                                                                             \
        'N', "namespace", "NAME", "use this namespace (default: $FLUX_KVS_NAMESPACE, or primary)" \
    }
#define KVS_OPT_TIMEOUT(help)            \
    {                                    \
        't', "timeout", "DURATION", help \
    }

/* Options and operands: at least `min` of these and at most `max` (< 0: any number), else the
 * error message `what`.  0, or 1 + the exit code. */
int kvs_parse(struct cmd *c, const struct cmd_usage *u, int argc, char **argv, int min, int max,
              const char *what, struct kvs_args *a);

/* --- values (cmd_kvs_text.c) --- */

/* Text in one line, with C escapes; of other bytes how many they are.  NULL: the same. */
void kvs_print_line(FILE *out, const char *data, uint64_t size);
/* Text as a string; other bytes as an array of numbers, so that nothing is lost; NULL as the number
 * of bytes. */
json_t *kvs_value_json(const char *data, uint64_t size);
/* The target of a link: an array with one string. */
json_t *kvs_link_json(const char *data, uint64_t size);
const char *kvs_type_name(enum flux_kvs_type type);
/* Print one JSON value (taken over) without newline. */
int kvs_put_json(struct cmd *c, json_t *val);

/* --- writing (cmd_kvs_write.c) --- */

/* Wait for a commit: CMD_OK with *version and *ref (malloc'd; both may be NULL), or
 * KVS_GUARD_FAILED if it was `guarded`.  `f` is taken over. */
int kvs_commit_wait(struct cmd *c, flux_future_t *f, bool guarded, uint64_t *version, char **ref);
/* Print version and reference as a JSON object. */
int kvs_print_root(struct cmd *c, uint64_t version, const char *ref);

/* --- listings (cmd_kvs_list.c) --- */

/* A root that is held while several requests read at it.  `at` NULL: the newest. */
struct kvs_root_held {
    flux_future_t *f;
    const char *ref;
    uint64_t version; /* 0 when `at` was given */
};
int kvs_root_hold(struct cmd *c, flux_t *h, const struct kvs_args *a, struct kvs_root_held *r);
void kvs_root_release(struct kvs_root_held *r);

struct kvs_item {
    const char *name;
    const char *data; /* NULL: not asked for, not kept, or large; NUL-terminated */
    uint64_t size;
    uint8_t namelen;
    uint8_t type; /* enum flux_kvs_type */
};
struct kvs_list {
    struct kvs_item *item; /* sorted by name */
    size_t n;
    size_t cap;
    struct kvs_block *blocks; /* names and values */
    size_t budget;            /* bytes of values to keep, set by the caller */
    size_t kept;
};

/* Go through what is below `key` in the order of names: `entry` is called for each, with its key
 * from `key` on; with FLUX_KVS_VALUES a value of at most FLUX_KVS_CHUNK bytes comes with them, and
 * a directory that is entered has the number of its entries as size.  Ends when it returns other
 * than CMD_OK. */
struct kvs_walk {
    flux_t *h;
    const char *ns;
    const char *rootref;
    int flags; /* FLUX_KVS_VALUES */
    bool recursive;
    int (*entry)(struct cmd *c, struct kvs_walk *w, const char *key, const struct kvs_item *e);
    int (*leave)(struct cmd *c, struct kvs_walk *w, const char *key); /* of a directory; or NULL */
    /* Instead of `entry`, for a key that is longer than keys may be and so cannot be asked for:
     * earlier versions of the store let copy and move make such.  NULL: the walk fails. */
    int (*too_long)(struct cmd *c, struct kvs_walk *w, const char *key, const errmsg_t *why);
    void *arg;
};
int kvs_walk(struct cmd *c, struct kvs_walk *w, const char *key);
/* "a" and "b": "a.b"; "." and "b": "b".  malloc'd; NULL after an error message. */
char *kvs_join(struct cmd *c, const char *dir, const char *name);

/* --- the commands --- */

typedef int kvs_command_f(struct cmd *c, int argc, char **argv);
kvs_command_f kvs_get, kvs_readlink, kvs_version, kvs_wait;                          /* _read.c */
kvs_command_f kvs_dir, kvs_ls;                                                       /* _list.c */
kvs_command_f kvs_put, kvs_unlink, kvs_mkdir, kvs_link, kvs_copy, kvs_move;          /* _write.c */
kvs_command_f kvs_watch;                                                             /* _watch.c */
kvs_command_f kvs_stats, kvs_dropcache, kvs_gc, kvs_fences, kvs_namespace, kvs_fsck; /* _admin.c */
kvs_command_f kvs_dump, kvs_restore; /* _dump.c, _restore.c */

#endif
