/* cmd_kvs.c - flux kvs: access to the key-value store from the shell.
 *
 * This file contains the table of the subcommands, and the arguments that they share.
 *
 *    cmd_kvs_text.c      values as text and JSON
 *    cmd_kvs_read.c      get, readlink, version, wait
 *    cmd_kvs_list.c      dir, ls; reading directories of any size
 *    cmd_kvs_write.c     put, unlink, mkdir, link, copy, move: transactions
 *    cmd_kvs_watch.c     watch
 *    cmd_kvs_admin.c     stats, dropcache, gc, fences, namespace, fsck
 *    cmd_kvs_archive.c   the format of archives
 *    cmd_kvs_dump.c, cmd_kvs_restore.c
 *
 * Exit codes: 0 on success; 1 for a key that does not exist and for every other failure, with an
 * error message; 2 on a usage error; 3 when the guard of a commit was not met.
 */
#include "config.h"
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "../cmd_all.h"
#include "cmd_kvs.h"
#include "libkvs/kvs_key.h"
#include "libutil/strutil.h"

int kvs_key_error(struct cmd *c, const char *key, const errmsg_t *err)
{
    size_t n = strlen(key);
    const char *named = strchr(err->text, '\'');

    if (named && strncmp(named + 1, key, n) == 0 && named[n + 1] == '\'')
        return cmd_error(c, "%s", err->text);
    return cmd_error(c, "%s: %s", key, err->text);
}

/* A user id, or the name of a user. */
static int parse_owner(struct cmd *c, const char *val, uint32_t *owner)
{
    struct passwd *pw;

    if (str2u32(val, owner) == 0)
        return CMD_OK;
    if (!(pw = getpwnam(val)))
        return cmd_usage_error(c, "--owner: there is no user '%s'", val);
    *owner = pw->pw_uid;
    return CMD_OK;
}

/* 0, or the exit code of what was wrong. */
static int option(struct cmd *c, int key, const char *val, struct kvs_args *a)
{
    switch (key) {
    case 'N':
        a->ns = val;
        break;
    case 'j':
        a->json = true;
        break;
    case 'R':
        a->recursive = true;
        break;
    case 'l':
        a->long_form = true;
        break;
    case 'e':
        a->must_exist = true;
        break;
    case 'c':
        if (cmd_parse_u64(c, "--count", val, &a->count) < 0)
            return CMD_USAGE;
        if (a->count == 0)
            return cmd_usage_error(c, "--count must be at least 1");
        break;
    case 't':
        return cmd_parse_duration(c, "--timeout", val, &a->timeout) < 0 ? CMD_USAGE : CMD_OK;
    case 'r':
        return cmd_parse_u32(c, "--rank", val, &a->rank) < 0 ? CMD_USAGE : CMD_OK;
    case KVS_KEY_RAW:
        a->raw = true;
        break;
    case KVS_KEY_AT:
        a->at = val;
        break;
    case KVS_KEY_AT_KEY:
        a->at_key = val;
        break;
    case KVS_KEY_APPEND:
        a->append = true;
        break;
    case KVS_KEY_IF_ABSENT:
        a->if_absent = true;
        break;
    case KVS_KEY_IF_TAG:
        if (a->n_if_tag == KVS_IF_TAG_MAX)
            return cmd_usage_error(c, "--if-tag: at most %d times", KVS_IF_TAG_MAX);
        a->if_tag[a->n_if_tag++] = val;
        break;
    case KVS_KEY_TAG:
        a->tag = true;
        break;
    case KVS_KEY_JOBS:
        a->jobs = true;
        break;
    case KVS_KEY_INFO:
        a->info = true;
        break;
    case KVS_KEY_OWNER:
        return parse_owner(c, val, &a->owner);
    }
    return CMD_OK;
}

static int check_namespace(struct cmd *c, struct kvs_args *a)
{
    const char *from = "--namespace";
    errmsg_t err;

    if (!a->ns) {
        from = "FLUX_KVS_NAMESPACE";
        a->ns = getenv(from);
        if (a->ns && !*a->ns)
            a->ns = NULL;
    }
    if (a->ns && kvs_ns_check(a->ns, strlen(a->ns), &err) < 0)
        return cmd_usage_error(c, "%s: %s", from, err.text);
    return CMD_OK;
}

int kvs_parse(struct cmd *c, const struct cmd_usage *u, int argc, char **argv, int min, int max,
              const char *what, struct kvs_args *a)
{
    const char *val;
    int key, rc;

    *a = (struct kvs_args){.timeout = -1., .owner = FLUX_KVS_OWNER_SELF};
    while ((key = cmd_option(c, u, argc, argv, &val)) > 0) {
        if ((rc = option(c, key, val, a)) != CMD_OK)
            return 1 + rc;
    }
    if (key < 0)
        return 1 + cmd_option_exit(key);
    a->argc = argc - c->optind;
    a->argv = argv + c->optind;
    if (a->argc < min || (max >= 0 && a->argc > max))
        return 1 + cmd_usage_error(c, "%s", what);
    rc = check_namespace(c, a);
    return rc == CMD_OK ? 0 : 1 + rc;
}

int cmd_kvs(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_sub subs[] = {
        {"get", kvs_get, "[OPTION...] KEY...", "print values"},
        {"put", kvs_put, "[OPTION...] KEY=VALUE...", "store values in one commit"},
        {"dir", kvs_dir, "[OPTION...] [KEY]", "print a directory with its values"},
        {"ls", kvs_ls, "[OPTION...] [KEY]", "print the names in a directory"},
        {"unlink", kvs_unlink, "[OPTION...] KEY...", "remove keys"},
        {"mkdir", kvs_mkdir, "[OPTION...] KEY...", "make directories"},
        {"link", kvs_link, "[OPTION...] TARGET KEY", "create a symbolic link"},
        {"readlink", kvs_readlink, "[OPTION...] KEY...", "print the targets of symbolic links"},
        {"copy", kvs_copy, "[OPTION...] FROM TO", "copy a key with all its contents"},
        {"move", kvs_move, "[OPTION...] FROM TO", "move a key with all its contents"},
        {"watch", kvs_watch, "[OPTION...] KEY", "print a key now and whenever it changes"},
        {"version", kvs_version, "[OPTION...]", "print the store's version"},
        {"wait", kvs_wait, "[OPTION...] VERSION", "wait for a version"},
        {"namespace", kvs_namespace, "COMMAND ...", "create, remove and list namespaces"},
        {"fences", kvs_fences, "[OPTION...]", "list open fences"},
        {"dump", kvs_dump, "[OPTION...] FILE|-", "write an archive"},
        {"restore", kvs_restore, "[OPTION...] FILE|-", "read an archive"},
        {"fsck", kvs_fsck, "[OPTION...] FILE|STATEDIR",
         "check the store on disk of an ended session"},
        {"gc", kvs_gc, "[OPTION...]", "reclaim unused data"},
        {"stats", kvs_stats, "[OPTION...]", "print counters"},
        {"dropcache", kvs_dropcache, "[OPTION...]", "drop the cache of this broker"},
        CMD_SUB_END,
    };

    return cmd_subcommand(c, "Access the key-value store of the session.", subs, argc, argv);
}
