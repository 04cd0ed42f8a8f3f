/* filetrust.c - can other users change what a path leads to?
 *
 * The path is walked name by name, as the kernel does, so symbolic links are seen.  `done` is an
 * absolute path without links, dots or double slashes, all parts of which were checked; `todo` is
 * the rest.
 *
 * Invariants:
 *  1. Each directory is checked before a name is looked up in it.  The result of lstat() for a name
 *     thus stays true: no user who is not trusted can rename or replace it.
 *  2. A directory to which others may write, but with the sticky bit, can only be passed through.
 *     An entry in it can be replaced by the owners of the entry and of the directory, and both are
 *     checked.
 *  3. Write permission of a group is harmless only if the owner is alone in it: the group has the
 *     number and the name of the user, no members are listed, and no access control list hides
 *     other grants behind the group's bits.
 *
 * Users who can replace this program itself (owners of the executable and of the directories above
 * it, and groups that can write to any of these) are trusted, too; these are determined only when a
 * path would be refused otherwise.
 *
 * Failure: refused, with an error message.
 */
#include "config.h"
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "libutil/filetrust.h"

#define LINKS_MAX 40 /* as in the kernel */
#define POWERS_MAX 32

struct walk {
    const char *path; /* as given by the caller */
    char done[PATH_MAX];
    char todo[PATH_MAX];
    errmsg_t *err;
};

/* --- users who can replace this program --- */

struct powers {
    uid_t uid[POWERS_MAX];
    gid_t gid[POWERS_MAX];
    size_t nuid;
    size_t ngid;
    bool everybody;
};

static void add_powers(struct powers *p, const struct stat *st)
{
    if (p->nuid < POWERS_MAX)
        p->uid[p->nuid++] = st->st_uid;
    if ((st->st_mode & S_ISVTX) && S_ISDIR(st->st_mode))
        return;
    if ((st->st_mode & S_IWGRP) && p->ngid < POWERS_MAX)
        p->gid[p->ngid++] = st->st_gid;
    p->everybody |= (st->st_mode & S_IWOTH) != 0;
}

static void find_powers(struct powers *p)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    struct stat st;

    memset(p, 0, sizeof(*p));
    if (n <= 0 || exe[0] != '/')
        return;
    exe[n] = '\0';
    while (exe[0] && lstat(exe, &st) == 0) {
        add_powers(p, &st);
        *strrchr(exe, '/') = '\0';
    }
}

static bool owner_has_power(uid_t uid)
{
    struct powers p;

    find_powers(&p);
    for (size_t i = 0; i < p.nuid; i++) {
        if (p.uid[i] == uid)
            return true;
    }
    return false;
}

static bool group_has_power(gid_t gid)
{
    struct powers p;

    find_powers(&p);
    for (size_t i = 0; i < p.ngid; i++) {
        if (p.gid[i] == gid)
            return true;
    }
    return p.everybody;
}

static bool everybody_has_power(void)
{
    struct powers p;

    find_powers(&p);
    return p.everybody;
}

/* --- one file or directory --- */

static bool owner_ok(uid_t uid)
{
    return uid == 0 || uid == geteuid() || owner_has_power(uid);
}

/* Is the owner alone in the group (invariant 3)? */
static bool group_is_private(const char *path, const struct stat *st)
{
    char pwbuf[4096], grbuf[4096];
    struct passwd pw, *user = NULL;
    struct group gr, *group = NULL;

    return st->st_gid == st->st_uid && lgetxattr(path, "system.posix_acl_access", NULL, 0) < 0 &&
           getpwuid_r(st->st_uid, &pw, pwbuf, sizeof(pwbuf), &user) == 0 && user &&
           getgrgid_r(st->st_gid, &gr, grbuf, sizeof(grbuf), &group) == 0 && group &&
           pw.pw_gid == st->st_gid && strcmp(pw.pw_name, gr.gr_name) == 0 && !gr.gr_mem[0];
}

static bool refuse(const struct walk *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static bool refuse(const struct walk *w, const char *fmt, ...)
{
    char why[128];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    if (strcmp(w->path, w->done) == 0)
        errmsg_fail(w->err, EPERM, "'%.100s' is not trusted: it %s", w->path, why);
    else
        errmsg_fail(w->err, EPERM, "'%.70s' is not trusted: '%.70s' %s", w->path, w->done, why);
    return false;
}

/* May an object of the path be trusted?  `last`: it is the object at the end, not a directory on
 * the way. */
static bool judge(const struct walk *w, const struct stat *st, bool last)
{
    unsigned mode = st->st_mode & 07777;

    if (!owner_ok(st->st_uid))
        return refuse(w, "belongs to user %u, neither to user %u nor to root", (unsigned)st->st_uid,
                      (unsigned)geteuid());
    if (S_ISLNK(st->st_mode)) /* the mode of a link has no meaning */
        return true;
    if (S_ISDIR(st->st_mode) && (mode & S_ISVTX) && !last)
        return true;
    if ((mode & S_IWOTH) && !everybody_has_power())
        return refuse(w, "can be changed by everybody (mode %04o): do chmod o-w", mode);
    if ((mode & S_IWGRP) && !group_is_private(w->done, st) && !group_has_power(st->st_gid))
        return refuse(w, "can be changed by group %u (mode %04o): do chmod g-w",
                      (unsigned)st->st_gid, mode);
    return true;
}

static bool cannot_look(const struct walk *w, int errnum)
{
    errmsg_fail(w->err, errnum, "'%.150s' cannot be used: %s", w->path, strerror(errnum));
    return false;
}

/* --- walking --- */

/* Put the target of the link `done` before the rest, and go back to the link's directory. */
static int follow(struct walk *w)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t n = readlink(w->done, target, sizeof(target) - 1);

    if (n < 0)
        return -1;
    target[n] = '\0';
    memcpy(rest, w->todo, sizeof(rest));
    if (snprintf(w->todo, sizeof(w->todo), "%s/%s", target, rest) >= (int)sizeof(w->todo)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (target[0] == '/')
        w->done[0] = '\0';
    else
        *strrchr(w->done, '/') = '\0';
    return 0;
}

/* Move the next name from `todo` to `done`.  1: moved, or it was ".." or "."; 0: nothing is
 * left. */
static int next_name(struct walk *w)
{
    size_t skip = strspn(w->todo, "/");
    size_t len = strcspn(w->todo + skip, "/");
    const char *name = w->todo + skip;
    size_t used = strlen(w->done);

    if (len == 0)
        return 0;
    if (len == 2 && memcmp(name, "..", 2) == 0) {
        if (used > 0)
            *strrchr(w->done, '/') = '\0';
    } else if (len != 1 || name[0] != '.') {
        if (used + 1 + len >= sizeof(w->done)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        w->done[used] = '/';
        memcpy(w->done + used + 1, name, len);
        w->done[used + 1 + len] = '\0';
    }
    memmove(w->todo, name + len, strlen(name + len) + 1);
    return 1;
}

static bool walk(struct walk *w)
{
    struct stat st;
    int links = 0, rc;

    if (lstat("/", &st) < 0)
        return cannot_look(w, errno);
    /* Each round begins with a check of the current position. */
    for (;;) {
        bool last = w->todo[strspn(w->todo, "/")] == '\0';

        if (S_ISLNK(st.st_mode)) {
            if (!judge(w, &st, false))
                return false;
            if (++links > LINKS_MAX)
                return cannot_look(w, ELOOP);
            if (follow(w) < 0)
                return cannot_look(w, errno);
        } else if (!judge(w, &st, last)) {
            return false;
        }
        if ((rc = next_name(w)) < 0)
            return cannot_look(w, errno);
        if (rc == 0)
            return true;
        if (lstat(w->done[0] ? w->done : "/", &st) < 0)
            return cannot_look(w, errno);
    }
}

bool file_is_trusted(const char *path, errmsg_t *err)
{
    struct walk *w = malloc(sizeof(*w));
    char *cwd = NULL;
    bool ok = false;
    int saved;

    if (!w || (path[0] != '/' && !(cwd = getcwd(NULL, 0)))) {
        errmsg_fail(err, errno, "'%.150s' cannot be used: %s", path, strerror(errno));
        free(w);
        return false;
    }
    w->path = path;
    w->err = err;
    w->done[0] = '\0';
    if (snprintf(w->todo, sizeof(w->todo), "%s/%s", cwd ? cwd : "", path) < (int)sizeof(w->todo))
        ok = walk(w);
    else
        cannot_look(w, ENAMETOOLONG);
    saved = errno;
    free(cwd);
    free(w);
    errno = saved;
    return ok;
}
