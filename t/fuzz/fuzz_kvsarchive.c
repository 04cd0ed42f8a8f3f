/* fuzz_kvsarchive.c - any bytes as an archive of flux kvs dump: refused with the number of a line,
 * or read; what was read and is written again reads the same. */
#include "fuzz_must.h"
#include "src/cmd/kvs/cmd_kvs_archive.c"

/* Writes what it is told. */
struct copy {
    FILE *out;
    char key[KVS_KEY_MAX + 1];
    char *value;
    size_t len;
};

static int copy_dir(void *arg, const char *key, errmsg_t *err)
{
    struct copy *c = arg;

    MUST(kvs_key_check(key, strlen(key), NULL) == 0);
    archive_put_dir(c->out, key);
    return 0;
}

static int copy_link(void *arg, const char *key, const char *target, errmsg_t *err)
{
    struct copy *c = arg;

    MUST(kvs_key_check(key, strlen(key), NULL) == 0);
    archive_put_link(c->out, key, target, strlen(target));
    return 0;
}

static int copy_value(void *arg, const char *key, errmsg_t *err)
{
    struct copy *c = arg;

    MUST(kvs_key_check(key, strlen(key), NULL) == 0);
    strcpy(c->key, key);
    c->len = 0;
    return 0;
}

static int copy_piece(void *arg, const void *data, size_t len, errmsg_t *err)
{
    struct copy *c = arg;
    char *more = realloc(c->value, c->len + len + 1);

    MUST(more);
    c->value = more;
    memcpy(c->value + c->len, data, len);
    c->len += len;
    return 0;
}

static int copy_end(void *arg, errmsg_t *err)
{
    struct copy *c = arg;

    archive_put_value(c->out, c->key, c->len);
    if (c->len)
        archive_put_piece(c->out, c->value, c->len);
    return 0;
}

static const struct archive_ops copy_ops = {copy_dir, copy_link, copy_value, copy_piece, copy_end};

/* The archive written again, malloc'd; NULL when it was refused. */
static char *copy_archive(const void *data, size_t size, size_t *len)
{
    struct copy c = {0};
    char *text = NULL;
    errmsg_t err = {""};
    FILE *in = fmemopen((void *)data, size, "r");
    int rc;

    MUST(in && (c.out = open_memstream(&text, len)));
    archive_put_head(c.out, "fuzz");
    if ((rc = archive_read(in, &copy_ops, &c, &err)) < 0)
        MUST(strncmp(err.text, "line ", 5) == 0);
    archive_put_end(c.out);
    fclose(c.out);
    fclose(in);
    free(c.value);
    if (rc == 0)
        return text;
    free(text);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t len, again;
    char *one = size > 0 ? copy_archive(data, size, &len) : NULL;

    if (one) {
        char *two = copy_archive(one, len, &again);
        MUST(two && again == len && memcmp(one, two, len) == 0);
        free(two);
    }
    free(one);
    return 0;
}
