/* boot_roster.c - the hosts of a session by configuration file, with those that have been added.
 *
 * Purpose: the file names the hosts of the first ranks, and `session.size` how many ranks there may
 * be.  Rank 0 gives the others to hosts as these are added, and tells the parents of brokers that
 * join there whether they may (core_admit.c).
 *
 * Format: the file STATEDIR/hosts has a line "RANK HOST" for each host that was added, in the order
 * of the ranks.  It is written anew, under another name first, when hosts have been added.
 *
 * Invariants:
 *  1. A host has been added when it is in the file, on disk: a host that has its rank keeps it when
 *     the session begins again.  Until then its rank is in `unsaved`, and nobody may join there.
 *  2. Hosts of the configuration file come first: a host that is listed there meanwhile has the
 *     rank that it was given, or the session does not begin.
 *
 * Failure: a host that cannot be recorded is not added.  A file that contradicts the configuration
 * is an error with its line: nobody but the operator knows which of them is right.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot_roster.h"
#include "libidset/idset.h"
#include "libutil/fdutil.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

#define FILE_MAX (32u * 1024 * 1024)

struct boot_roster {
    boot_hosts_t *hosts;
    char *dir;  /* NULL: hosts are not recorded */
    char *path; /* of the file in it */
    idset_t *unsaved;
};

/* --- the file --- */

/* Take one line, which ends with NUL. */
static int take_line(boot_roster_t *r, char *text, unsigned line, errmsg_t *err)
{
    char *host = strchr(text, ' ');
    errmsg_t why;
    const char *known;
    uint32_t rank;

    if (host)
        *host++ = '\0';
    if (!host || str2u32(text, &rank) < 0)
        return errmsg_fail(err, EINVAL, "%s:%u: expected 'RANK HOST'", r->path, line);
    if (rank >= boot_hosts_size(r->hosts))
        return errmsg_fail(err, EINVAL,
                           "%s:%u: host %.64s was added as rank %u, but the session has ranks 0 to "
                           "%u: correct session.size, or remove the line",
                           r->path, line, host, rank, boot_hosts_size(r->hosts) - 1);
    if ((known = boot_hosts_name(r->hosts, rank))) {
        if (boot_hosts_same(known, host))
            return 0;
        return errmsg_fail(err, EINVAL,
                           "%s:%u: host %.64s was added as rank %u, but session.hosts has %.64s in "
                           "its place: correct session.hosts, or remove the line",
                           r->path, line, host, rank, known);
    }
    if (boot_hosts_put(r->hosts, rank, host, &why) < 0)
        return errmsg_fail(err, errno == ENOMEM ? ENOMEM : EINVAL, "%s:%u: %s", r->path, line,
                           why.text);
    return 0;
}

/* Take the text of the file, which is overwritten. */
static int take_text(boot_roster_t *r, char *text, size_t len, errmsg_t *err)
{
    unsigned line = 1;
    char *end;

    for (char *s = text; s < text + len; s = end + 1, line++) {
        if (!(end = memchr(s, '\n', (size_t)(text + len - s))))
            return errmsg_fail(err, EINVAL, "%s:%u: the line has no end", r->path, line);
        if (memchr(s, '\0', (size_t)(end - s)))
            return errmsg_fail(err, EINVAL, "%s:%u: there is a zero byte", r->path, line);
        *end = '\0';
        if (take_line(r, s, line, err) < 0)
            return -1;
    }
    return 0;
}

static int load(boot_roster_t *r, errmsg_t *err)
{
    char *data;
    size_t len;
    int rc;

    if (file_read_all(r->path, FILE_MAX, &data, &len) < 0)
        return errno == ENOENT
                   ? 0
                   : errmsg_fail(err, errno, "%s cannot be read: %s", r->path, strerror(errno));
    rc = take_text(r, data, len, err);
    free(data);
    return rc;
}

static int write_file(const char *path, const char *tmp, const char *text, size_t len)
{
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -1 : fd_write_all(fd, text, len);

    if (rc == 0)
        rc = fsync(fd);
    if (fd >= 0 && close(fd) < 0)
        rc = -1;
    if (rc == 0 && (rc = rename(tmp, path)) == 0)
        return file_sync_dir(path);
    if (fd >= 0) {
        int saved = errno;

        unlink(tmp);
        errno = saved;
    }
    return -1;
}

/* The text of the file.  NULL with ENOMEM. */
static strbuf_t *make_text(const boot_roster_t *r)
{
    strbuf_t *sb = strbuf_create(0);
    int rc = sb ? 0 : -1;

    for (uint32_t rank = boot_hosts_listed(r->hosts); rc == 0 && rank < boot_hosts_size(r->hosts);
         rank++) {
        const char *host = boot_hosts_name(r->hosts, rank);

        if (host)
            rc = strbuf_addf(sb, "%u %s\n", rank, host);
    }
    if (rc < 0) {
        strbuf_destroy(sb);
        errno = ENOMEM;
        return NULL;
    }
    return sb;
}

static int write_hosts(const boot_roster_t *r)
{
    strbuf_t *sb = make_text(r);
    char tmp[4096];
    int rc = sb ? 0 : -1;

    if (rc == 0 && snprintf(tmp, sizeof(tmp), "%s.new", r->path) >= (int)sizeof(tmp)) {
        errno = ENAMETOOLONG;
        rc = -1;
    }
    if (rc == 0 && (mkdir(r->dir, 0700) == 0 || errno == EEXIST))
        rc = write_file(r->path, tmp, strbuf_str(sb), strbuf_len(sb));
    else
        rc = -1;
    strbuf_destroy(sb);
    return rc;
}

/* --- hosts --- */

int boot_roster_add(boot_roster_t *r, const char *host, uint32_t *rank, errmsg_t *err)
{
    if (boot_hosts_add(r->hosts, host, rank, err) < 0)
        return -1;
    if (idset_set(r->unsaved, *rank) == 0)
        return 0;
    boot_hosts_remove(r->hosts, *rank);
    return errmsg_fail(err, ENOMEM, "out of memory for host %.64s", host);
}

int boot_roster_save(boot_roster_t *r, errmsg_t *err)
{
    int errnum = r->dir && !idset_empty(r->unsaved) && write_hosts(r) < 0 ? errno : 0;
    uint32_t rank;

    while ((rank = idset_first(r->unsaved)) != IDSET_NONE) {
        if (errnum)
            boot_hosts_remove(r->hosts, rank);
        (void)idset_clear(r->unsaved, rank);
    }
    return errnum == 0
               ? 0
               : errmsg_fail(err, errnum, "%s cannot be written: %s", r->path, strerror(errnum));
}

/* The host that has been added for this rank; NULL: none. */
static const char *host_at(const boot_roster_t *r, uint32_t rank)
{
    return idset_test(r->unsaved, rank) ? NULL : boot_hosts_name(r->hosts, rank);
}

int boot_roster_admit(const boot_roster_t *r, uint32_t rank, const char *host, errmsg_t *err)
{
    const char *known = rank < boot_hosts_size(r->hosts) ? host_at(r, rank) : NULL;
    uint32_t own;

    if (known && boot_hosts_same(known, host))
        return 0;
    own = boot_hosts_find(r->hosts, host);
    if (own < boot_hosts_size(r->hosts) && host_at(r, own))
        return errmsg_fail(err, EPERM,
                           "host %.64s %s as rank %u, not as rank %u: start its broker with "
                           "--set=boot.rank=%u",
                           host, own < boot_hosts_listed(r->hosts) ? "is listed" : "was added", own,
                           rank, own);
    if (known)
        return errmsg_fail(err, EPERM,
                           "rank %u is for host %.64s, and host %.64s has not been added to the "
                           "session: run 'flux overlay add %.64s' on a host of the session",
                           rank, known, host, host);
    return errmsg_fail(err, EPERM,
                       "host %.64s has not been added to the session: run 'flux overlay add %.64s' "
                       "on a host of the session",
                       host, host);
}

/* --- start and end --- */

boot_roster_t *boot_roster_create(boot_hosts_t *hosts, const char *statedir, errmsg_t *err)
{
    boot_roster_t *r = calloc(1, sizeof(*r));

    if (!r || !(r->unsaved = idset_create()) ||
        (statedir &&
         (!(r->dir = strdup(statedir)) || asprintf(&r->path, "%s/hosts", statedir) < 0))) {
        if (r)
            r->path = NULL;
        boot_roster_destroy(r);
        errmsg_fail(err, ENOMEM, "out of memory for the hosts of the session");
        return NULL;
    }
    r->hosts = hosts;
    if (r->dir && load(r, err) < 0) {
        boot_roster_destroy(r);
        return NULL;
    }
    return r;
}

void boot_roster_destroy(boot_roster_t *r)
{
    int saved = errno;

    if (!r)
        return;
    free(r->dir);
    free(r->path);
    idset_destroy(r->unsaved);
    free(r);
    errno = saved;
}
