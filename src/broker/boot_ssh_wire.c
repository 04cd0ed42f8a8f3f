/* The dialog over an ssh connection.
 *
 * Format:
 *     broker  -> starter   "\nflux-broker --remote VERSION\n", after whatever the remote shell
 *     prints starter -> broker    a frame of type ARGS
 *     both                 frames
 *
 * A frame has one byte for its type, four bytes (little-endian) for the length of the data, and the
 * data.  ARGS holds strings that end with NUL: working directory, rank, size, whether it
 * was absent, and the options of flux-broker.  Nothing of that is on a command line or in a file:
 * only the user, and root, can read it.
 *
 * Invariants:
 *  1. A greeting is a whole line.  What comes before it is ignored, at most BOOT_GREETING_NOISE
 *     bytes.
 *  2. A frame has at most BOOT_FRAME_MAX bytes of data.  Both ends have the same version.
 *
 * Failure: EPROTO for what does not have this form.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot_ssh_wire.h"
#include "libutil/buf.h"
#include "libutil/le.h"
#include "libutil/strutil.h"

#define GREETING "\nflux-broker --remote "

void boot_frame_header(char header[BOOT_FRAME_HEADER], char type, size_t len)
{
    header[0] = type;
    le_put32(header + 1, (uint32_t)len);
}

int boot_frame_first(const char *data, size_t len, struct boot_frame *f, size_t *used)
{
    if (len < BOOT_FRAME_HEADER)
        return 0;
    f->type = data[0];
    f->data = data + BOOT_FRAME_HEADER;
    f->len = le_get32(data + 1);
    if (!strchr("APESHR", f->type) || f->type == '\0' || f->len > BOOT_FRAME_MAX) {
        errno = EPROTO;
        return -1;
    }
    if (len - BOOT_FRAME_HEADER < f->len)
        return 0;
    *used = BOOT_FRAME_HEADER + f->len;
    return 1;
}

const char *boot_greeting(void)
{
    return GREETING PACKAGE_VERSION "\n";
}

int boot_greeting_find(const char *data, size_t len, char *version, size_t size, size_t *used)
{
    const char *start = memmem(data, len, GREETING, strlen(GREETING));
    const char *end;
    size_t n;

    if (start) {
        start += strlen(GREETING);
        if ((end = memchr(start, '\n', len - (size_t)(start - data)))) {
            n = (size_t)(end - start) < size ? (size_t)(end - start) : size - 1;
            memcpy(version, start, n);
            version[n] = '\0';
            str_clean(version);
            *used = (size_t)(end + 1 - data);
            return 1;
        }
    }
    if (len <= BOOT_GREETING_NOISE)
        return 0;
    errno = EPROTO;
    return -1;
}

int boot_ssh_explain(const char *host, int code, const char *line, const char *broker,
                     errmsg_t *err)
{
    if (code == 255 && strstr(line, "Permission denied"))
        return errmsg_fail(err, EACCES,
                           "host %.64s does not let ssh in without a password: set up a key "
                           "(ssh-copy-id %.64s) or an agent (%.64s)",
                           host, host, line);
    if (code == 255 && strstr(line, "Host key verification failed"))
        return errmsg_fail(err, EACCES,
                           "ssh does not know the key of host %.64s, or knows another one: connect "
                           "once with 'ssh %.64s'",
                           host, host);
    if (code == 255)
        return errmsg_fail(err, EHOSTUNREACH, "host %.64s cannot be reached: %.160s", host,
                           line[0] ? line : "ssh does not say why");
    if (code == 126 || code == 127)
        return errmsg_fail(err, ENOENT,
                           "host %.64s cannot run %.100s: install this version of flux there, in "
                           "the same directory",
                           host, broker);
    return errmsg_fail(err, EPROTO, "host %.64s did not start a broker (exit code %d)%s%.120s",
                       host, code, line[0] ? ": " : "", line);
}

char *boot_remote_args_encode(const struct boot_remote_args *a, size_t *len)
{
    const uint32_t numbers[] = {a->rank, a->size, a->again};
    buf_t *b = buf_create(BOOT_FRAME_MAX);
    char number[16];
    char *data = NULL;
    int rc = b ? buf_append(b, a->dir, strlen(a->dir) + 1) : -1;

    for (int i = 0; rc == 0 && i < 3; i++) {
        snprintf(number, sizeof(number), "%u", numbers[i]);
        rc = buf_append(b, number, strlen(number) + 1);
    }
    for (size_t i = 0; rc == 0 && i < strvec_count(a->options); i++) {
        const char *s = strvec_at(a->options, i);

        rc = buf_append(b, s, strlen(s) + 1);
    }
    if (rc < 0 && errno == ENOBUFS)
        errno = E2BIG;
    if (rc == 0 && (data = malloc(buf_len(b)))) {
        memcpy(data, buf_data(b), buf_len(b));
        *len = buf_len(b);
    }
    buf_destroy(b);
    return data;
}

int boot_remote_args_decode(const char *data, size_t len, struct boot_remote_args *a)
{
    const char *part[4];
    const char *end = data + len;
    int nparts = 0;

    if (len == 0 || end[-1] != '\0') {
        errno = EPROTO;
        return -1;
    }
    if (!(a->options = strvec_create()))
        return -1;
    for (; data < end; data += strlen(data) + 1) {
        if (nparts < 4)
            part[nparts++] = data;
        else if (strvec_add(a->options, data) < 0)
            goto fail;
    }
    if (nparts == 4 && str2u32(part[1], &a->rank) == 0 && str2u32(part[2], &a->size) == 0 &&
        str2u32(part[3], &a->again) == 0 && a->rank < a->size && a->again <= 1) {
        a->dir = part[0];
        return 0;
    }
    errno = EPROTO;
fail:
    strvec_destroy(a->options);
    a->options = NULL;
    return -1;
}
