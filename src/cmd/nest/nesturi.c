/* nesturi.c - see nesturi.h. */
#include "nesturi.h"

#include <errno.h>
#include <string.h>

#include "libutil/strutil.h"

static int bad(const char *text, errmsg_t *err)
{
    return errmsg_fail(err, EINVAL,
                       "'%.200s' is not the address of a session: flux://HOST/PATH?rank=N", text);
}

int nesturi_parse(const char *text, struct nesturi *u, errmsg_t *err)
{
    static const char scheme[] = "flux://", query[] = "?rank=";
    const char *host = text + sizeof(scheme) - 1;
    const char *path, *q;
    size_t hostlen, pathlen;

    if (!str_starts(text, scheme) || !(path = strchr(host, '/')) || !(q = strrchr(path, '?')) ||
        !str_starts(q, query) || str2u32(q + sizeof(query) - 1, &u->rank) < 0)
        return bad(text, err);
    hostlen = (size_t)(path - host);
    pathlen = (size_t)(q - path);
    if (hostlen == 0 || hostlen >= sizeof(u->host) || pathlen < 2 || pathlen >= sizeof(u->path))
        return bad(text, err);
    memcpy(u->host, host, hostlen);
    u->host[hostlen] = '\0';
    memcpy(u->path, path, pathlen);
    u->path[pathlen] = '\0';
    return 0;
}

int nesturi_path(const char *text, uint64_t *ids, size_t max, errmsg_t *err)
{
    const char *p = text;
    char num[24];
    int n = 0;

    for (;;) {
        size_t len = strcspn(p, "/");

        if (len == 0 || len >= sizeof(num))
            break;
        memcpy(num, p, len);
        num[len] = '\0';
        if ((size_t)n >= max || str2u64(num, &ids[n]) < 0 || ids[n] == 0)
            break;
        n++;
        p += len;
        if (!*p)
            return n;
        p++;
    }
    return errmsg_fail(err, EINVAL, "'%.200s' is not a job id or a path of job ids (3/1/2)", text);
}
