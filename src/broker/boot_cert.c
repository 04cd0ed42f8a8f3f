/* Certificate files.
 *
 *     # comment
 *     public-key Z85
 *     secret-key Z85
 *
 * Format: each key occurs once, on a line of its own, from the first blank to the end of the line.
 * FILE.pub has no secret-key line.  Anything else is an error, so that a key damaged by an editor
 * is not accepted.  Files are written under a temporary name and then linked or renamed, so a
 * reader sees a complete certificate or none, and two writers cannot both believe that they own the
 * name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "boot_cert.h"
#include "libutil/fdutil.h"
#include "libutil/filetrust.h"
#include "libutil/strutil.h"

#define FILE_MAX 4096
#define PATH_SIZE 4096

int boot_cert_generate(struct cert *c, errmsg_t *err)
{
    memset(c, 0, sizeof(*c));
    if (zmq_curve_keypair(c->public_key, c->secret_key) < 0)
        return errmsg_fail(err, errno, "cannot make a key pair: %s", zmq_strerror(errno));
    return 0;
}

void boot_cert_wipe(struct cert *c)
{
    explicit_bzero(c, sizeof(*c));
}

/* --- writing --- */

static int write_one(const char *path, const char *text, mode_t mode, bool force, errmsg_t *err)
{
    char tmp[PATH_SIZE];
    int fd, saved;

    if (snprintf(tmp, sizeof(tmp), "%s.XXXXXX", path) >= (int)sizeof(tmp))
        return errmsg_fail(err, ENAMETOOLONG, "the name %.60s... is too long", path);
    if ((fd = mkostemp(tmp, O_CLOEXEC)) < 0)
        return errmsg_fail(err, errno, "cannot create %s: %s", path, strerror(errno));
    if (fchmod(fd, mode) < 0 || fd_write_all(fd, text, strlen(text)) < 0 || fsync(fd) < 0 ||
        (force ? rename(tmp, path) : link(tmp, path)) < 0) {
        saved = errno;
        close(fd);
        unlink(tmp);
        if (saved == EEXIST)
            return errmsg_fail(err, EEXIST, "%s already exists; use --force to replace it", path);
        return errmsg_fail(err, saved, "cannot write %s: %s", path, strerror(saved));
    }
    close(fd);
    if (!force)
        unlink(tmp);
    if (file_sync_dir(path) < 0)
        return errmsg_fail(err, errno, "%s may be lost after a power failure: %s", path,
                           strerror(errno));
    return 0;
}

int boot_cert_write(const struct cert *c, const char *path, bool force, errmsg_t *err)
{
    char pub[PATH_SIZE], text[512];
    int rc;

    if (snprintf(pub, sizeof(pub), "%s.pub", path) >= (int)sizeof(pub))
        return errmsg_fail(err, ENAMETOOLONG, "the name %.60s... is too long", path);
    if (!force && (access(path, F_OK) == 0 || access(pub, F_OK) == 0))
        return errmsg_fail(err, EEXIST, "%s already exists; use --force to replace it",
                           access(path, F_OK) == 0 ? path : pub);
    snprintf(text, sizeof(text),
             "# Flux certificate. Keep this file private: anyone who has it can join the session.\n"
             "public-key %s\nsecret-key %s\n",
             c->public_key, c->secret_key);
    rc = write_one(path, text, 0600, force, err);
    explicit_bzero(text, sizeof(text));
    if (rc < 0)
        return -1;
    snprintf(text, sizeof(text), "# Flux certificate, public part.\npublic-key %s\n",
             c->public_key);
    return write_one(pub, text, 0644, force, err);
}

/* --- reading --- */

static int take_key(const char *line, size_t len, char *key)
{
    uint8_t bin[32];

    if (len != CERT_KEY_SIZE - 1 || key[0])
        return -1;
    memcpy(key, line, len);
    key[len] = '\0';
    return zmq_z85_decode(bin, key) ? 0 : -1;
}

static int parse(struct cert *c, const char *path, const char *text, size_t len, bool secret,
                 errmsg_t *err)
{
    const char *end = text + len;
    int number = 1;

    memset(c, 0, sizeof(*c));
    for (const char *p = text; p < end; number++) {
        const char *nl = memchr(p, '\n', end - p), *eol = nl ? nl : end;
        size_t n = eol - p;
        int rc = 0;

        if (n > 11 && memcmp(p, "public-key ", 11) == 0)
            rc = take_key(p + 11, n - 11, c->public_key);
        else if (secret && n > 11 && memcmp(p, "secret-key ", 11) == 0)
            rc = take_key(p + 11, n - 11, c->secret_key);
        else if (n > 0 && p[0] != '#')
            rc = -1;
        if (rc < 0)
            return errmsg_fail(err, EINVAL,
                               "%s, line %d: this is not a line that 'flux keygen' writes%s", path,
                               number, secret ? "" : " in a .pub file");
        p = eol + 1;
    }
    if (!c->public_key[0] || (secret && !c->secret_key[0]))
        return errmsg_fail(err, EINVAL, "%s: there is no %s key; create one with 'flux keygen'",
                           path, c->public_key[0] ? "secret" : "public");
    return 0;
}

int boot_cert_read(struct cert *c, const char *path, bool secret, errmsg_t *err)
{
    char name[PATH_SIZE], *text = NULL;
    errmsg_t why;
    struct stat st;
    size_t len;
    int fd, rc;

    if (snprintf(name, sizeof(name), "%s%s", path, secret ? "" : ".pub") >= (int)sizeof(name))
        return errmsg_fail(err, ENAMETOOLONG, "the name %.60s... is too long", path);
    if ((fd = open(name, O_RDONLY | O_CLOEXEC)) < 0 || fstat(fd, &st) < 0) {
        rc = errmsg_fail(err, errno, "cannot read certificate %s: %s", name, strerror(errno));
    } else if (secret && (st.st_mode & 077)) {
        rc = errmsg_fail(err, EPERM, "others can read the secret key in %s; run: chmod 600 %s",
                         name, name);
    } else if (!file_is_trusted(name, &why)) {
        rc = errmsg_fail(err, errno, "certificate %s", why.text);
    } else if (fd_read_all(fd, FILE_MAX, &text, &len) < 0) {
        rc = errmsg_fail(err, errno, "cannot read certificate %s: %s", name, strerror(errno));
    } else {
        rc = parse(c, name, text, len, secret, err);
    }
    if (fd >= 0)
        close(fd);
    if (text) {
        explicit_bzero(text, len);
        free(text);
    }
    if (rc < 0)
        boot_cert_wipe(c);
    return rc;
}
