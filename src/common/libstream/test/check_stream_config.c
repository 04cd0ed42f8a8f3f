/* check_stream_config.c - settings of streams in a file. */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libstream/stream_config.h"
#include "libutil/test/suite.h"

static errmsg_t err;

static int apply(const char *text, const char *name, struct flux_stream_opts *opts, char **held)
{
    *held = NULL;
    return stream_config_apply(text, strlen(text), name, FLUX_STREAM_READ, opts, held, &err);
}

START_TEST(settings)
{
    static const char text[] =
        "<?xml version=\"1.0\"?>\n<!-- of the\nsite -->\n<streams>\n"
        "  <stream name=\"heat\" policy='latest' depth = \"4\" bytes=\"64M\"/>\n"
        "  <!-- <stream/> -->\n"
        "  <stream\n   name=\"sim.*\" keep=\"3\" evict=\"1m\" readers=\"2\"\n"
        "   timeout=\"inf\" group=\"a&lt;&gt;&amp;&quot;&apos;\" key=\"k\" by=\"record\" />\n"
        "  <stream name=\"*\" depth=\"9\"/>\n</streams>\n<!---->\n";
    struct flux_stream_opts o = {.depth = 7, .keep = 8, .policy = "block"};
    char *held;

    ck_assert_msg(apply(text, "heat", &o, &held) == 0, "%s", err.text);
    ck_assert(o.depth == 4 && o.bytes == 64 << 20 && o.keep == 8 && !o.group);
    ck_assert_str_eq(o.policy, "latest");
    free(held);
    o = (struct flux_stream_opts){.depth = 7};
    ck_assert_int_eq(apply(text, "sim.a", &o, &held), 0);
    ck_assert(o.depth == 7 && o.keep == 3 && o.evict == 60. && o.readers == 2 && o.timeout == -1.);
    ck_assert_str_eq(o.group, "a<>&\"'");
    ck_assert_str_eq(o.key, "k");
    ck_assert_str_eq(o.by, "record");
    free(held);
    ck_assert_int_eq(apply(text, "x", &o, &held), 0);
    ck_assert_uint_eq(o.depth, 9);
    free(held);
    ck_assert_int_eq(apply("<streams></streams>", "x", &o, &held), 0);
    ck_assert_ptr_null(held);
}
END_TEST

/* Transforms are of one side. */
START_TEST(sides)
{
    static const char text[] =
        "<streams><stream name=\"x\" at-writer=\"w.lua\" at-reader=\"a.lua | b.so:2\"/></streams>";
    struct flux_stream_opts o = {.keep = 1};
    char *held;

    ck_assert_msg(apply(text, "x", &o, &held) == 0, "%s", err.text);
    ck_assert_str_eq(o.transforms, "a.lua | b.so:2");
    free(held);
    held = NULL;
    o = (struct flux_stream_opts){.keep = 1};
    ck_assert_int_eq(
        stream_config_apply(text, strlen(text), "x", FLUX_STREAM_WRITE, &o, &held, &err), 0);
    ck_assert_str_eq(o.transforms, "w.lua");
    free(held);
}
END_TEST

/* Everything else is refused, wherever it is cut off. */
START_TEST(mistakes)
{
    static const struct {
        const char *text;
        const char *error;
    } wrong[] = {
        {"", "line 1: there is no <streams>"},
        {"<!-- \n", "line 1: there is no end of <!--"},
        {"<streams>\n<other/>", "line 2: neither <stream ...> nor </streams>"},
        {"<streams>\n<stream name=\"a\"></stream>", "line 2: an element stream ends with />"},
        {"<streams><stream depth=\"1\"/>", "line 1: a stream has no name"},
        {"<streams><stream name=\"a\" size=\"1\"/>", "line 1: a stream has no attribute size"},
        {"<streams><stream name=\"a\" name=\"b\"/>", "line 1: twice the attribute name"},
        {"<streams><stream depth=\"1\" depth=\"2\"/>", "line 1: twice the attribute depth"},
        {"<streams><stream depth=\"many\"/>", "line 1: this is not a value of depth"},
        {"<streams><stream bytes=\"-1\"/>", "line 1: this is not a value of bytes"},
        {"<streams><stream evict=\"soon\"/>", "line 1: this is not a value of evict"},
        {"<streams><stream name/>", "line 1: an attribute has no value"},
        {"<streams><stream name=a/>", "line 1: a value has no quotation marks"},
        {"<streams><stream name=\"a", "line 1: a value has no end"},
        {"<streams><stream name=\"<\"/>",
         "line 1: a value is too long, or has a character that is not possible"},
        {"<streams><stream name=\"&nbsp;\"/>", "line 1: a value has an entity that is not known"},
        {"<streams><stream abcdefghijklmnopq=\"\"/>", "line 1: the name is too long"},
        {"<streams></streams>\n\nx", "line 3: something follows </streams>"},
    };
    static const char whole[] = "<streams><stream name=\"x\" key='a&amp;b'/></streams>";
    struct flux_stream_opts o = {.depth = 7};
    char *held;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ck_assert_int_eq(apply(wrong[i].text, "y", &o, &held), -1);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_str_eq(err.text, wrong[i].error);
        ck_assert_ptr_null(held);
    }
    for (size_t len = 0; len < sizeof(whole) - 1; len++) {
        char *cut = malloc(len + 1); /* exactly, for checkers of memory */

        memcpy(cut, whole, len);
        held = NULL;
        ck_assert_int_eq(stream_config_apply(cut, len, "x", FLUX_STREAM_READ, &o, &held, &err), -1);
        free(held);
        free(cut);
    }
    ck_assert_uint_eq(o.depth, 7);
}
END_TEST

START_TEST(file)
{
    char path[] = "/tmp/check_stream_config.XXXXXX";
    struct flux_stream_opts o = {0};
    char *held = NULL;
    char want[200];
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    unsetenv("FLUX_STREAM_CONFIG");
    ck_assert_int_eq(stream_config_file("a", FLUX_STREAM_WRITE, &o, &held, &err), 0);
    setenv("FLUX_STREAM_CONFIG", path, 1);
    ck_assert_int_eq(stream_config_file("a", FLUX_STREAM_WRITE, &o, &held, &err), -1);
    snprintf(want, sizeof(want), "the settings of streams, %s: line 1: there is no <streams>",
             path);
    ck_assert_str_eq(err.text, want);
    ck_assert_int_eq(dprintf(fd, "<streams><stream name=\"a\" keep=\"5\"/></streams>"), 46);
    ck_assert_msg(stream_config_file("a", FLUX_STREAM_WRITE, &o, &held, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(o.keep, 5);
    free(held);
    close(fd);
    unlink(path);
    ck_assert_int_eq(stream_config_file("a", FLUX_STREAM_WRITE, &o, &held, &err), -1);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

int main(void)
{
    RUN_SUITE("stream_config", settings, sides, mistakes, file);
}
