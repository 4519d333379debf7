/* test_safetensors.c - reading safetensors files: what must be refused, and what must be read. */
#define _XOPEN_SOURCE 700
#include "counted.h"

#include "session/safetensors.h"

AROUND_EACH(start, stop)

#define T(name, dtype, shape, begin, end)                                                                            \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

/* Headers in front of 16 bytes of data, and a part of what is said about them. */
static const struct refused {
    const char *what, *header, *said;
} refused[] = {
    {"nothing", "", "byte 8, in the header: expected '{'"},
    {"a blank first", " {}", "byte 8, in the header: expected '{'"},
    {"no object", "[]", "expected '{'"},
    {"an open object", "{", "byte 9, in the header: expected '\"'"},
    {"a comma too many", "{" T("a", "F32", "4", 0, 16) ",}", "expected '\"'"},
    {"no comma", "{" T("a", "F32", "2", 0, 8) T("b", "F32", "2", 8, 16) "}", "expected '}'"},
    {"something behind it", "{" T("a", "F32", "4", 0, 16) "} x", "expected nothing more but blanks"},
    {"a key that is no text", "{1:2}", "byte 9, in the header: expected '\"'"},
    {"no colon", "{\"a\" {}}", "expected ':'"},
    {"a text that does not end", "{\"abc", "byte 9, in the header: a text that does not end"},
    {"a text that ends in an escape", "{\"abc\\", "an escape"},
    {"a line break in a text", "{\"a\nb\":{}}", "byte 11, in the header: a control character in a text"},
    {"an unknown escape", "{\"a\\x\":{}}", "byte 11, in the header: an escape that JSON does not have"},
    {"half an escape", "{\"\\u12", "byte 10, in the header: an escape that stands for no letter"},
    {"an escape that is no number", "{\"\\u12g4\":{}}", "stands for no letter"},
    {"a zero in a name", "{\"a\\u0000b\":{}}", "stands for no letter"},
    {"a control character in a name", "{" T("a\\u001b[31m", "F32", "4", 0, 16) "}", "a control character in a name"},
    {"half a surrogate pair", "{\"\\ud83d\":{}}", "stands for no letter"},
    {"a wrong surrogate pair", "{\"\\ud83d\\u0041\":{}}", "stands for no letter"},
    {"a low surrogate", "{\"\\ude00\":{}}", "stands for no letter"},
    {"not UTF-8", "{\"\xff\":{}}", "not UTF-8"},
    {"overlong UTF-8", "{\"\xc0\xaf\":{}}", "not UTF-8"},
    {"a surrogate in UTF-8", "{\"\xed\xa0\x80\":{}}", "not UTF-8"},
    {"UTF-8 beyond the last letter", "{\"\xf4\x90\x80\x80\":{}}", "not UTF-8"},
    {"UTF-8 cut off", "{\"\xe2\x82", "not UTF-8"},
    {"a tensor that is no object", "{\"a\":[]}", "byte 13, in the header: expected '{'"},
    {"no dtype", "{\"a\":{\"shape\":[4],\"data_offsets\":[0,16]}}", "this tensor lacks"},
    {"no shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,16]}}", "this tensor lacks"},
    {"no offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", "this tensor lacks"},
    {"a property twice", "{\"a\":{\"shape\":[4],\"shape\":[4],\"dtype\":\"F32\"}}", "once each"},
    {"an unknown property", "{\"a\":{\"size\":4}}", "and no more"},
    {"a dtype that is no text", "{\"a\":{\"dtype\":32}}", "expected '\"'"},
    {"an unknown dtype", "{" T("a", "F33", "4", 0, 16) "}", "a dtype that is not known"},
    {"a shape that is no list", "{\"a\":{\"shape\":4}}", "expected '['"},
    {"a nested shape", "{" T("a", "F32", "[4]", 0, 16) "}", "expected a whole number"},
    {"a negative size", "{" T("a", "F32", "-4", 0, 16) "}", "expected a whole number"},
    {"a fraction", "{" T("a", "F32", "4.0", 0, 16) "}", "expected a whole number"},
    {"an exponent", "{" T("a", "F32", "4e0", 0, 16) "}", "expected a whole number"},
    {"a zero in front", "{" T("a", "F32", "04", 0, 16) "}", "expected a whole number"},
    {"a word", "{" T("a", "F32", "null", 0, 16) "}", "expected a whole number"},
    {"a comma too many in a list", "{" T("a", "F32", "4,", 0, 16) "}", "expected a whole number"},
    {"a number of 2^63", "{" T("a", "F32", "9223372036854775808", 0, 16) "}", "a number that is too large"},
    {"a number of 2^64 + 4", "{" T("a", "F32", "18446744073709551620", 0, 16) "}", "a number that is too large"},
    {"seven axes", "{" T("a", "F32", "1,1,1,1,1,1,4", 0, 16) "}", "more numbers than there may be here"},
    {"a product of 2^64 + 4", "{" T("a", "F32", "4294967296,4294967296,4", 0, 16) "}", "more elements than can be"},
    {"a product of 2^64, and zero", "{" T("a", "F32", "4294967296,4294967296,0", 0, 0) "}", "more elements"},
    {"one offset", "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16]}}", "must be two numbers"},
    {"three offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,8,16]}}", "more numbers"},
    {"offsets the wrong way", "{" T("a", "F32", "4", 16, 0) "}", "tensor 'a' lies at bytes 16 to 0"},
    {"an end outside", "{" T("a", "F32", "5", 0, 20) "}",
     "tensor 'a' lies at bytes 0 to 20 of the data, which are 16"},
    {"far outside", "{" T("a", "F32", "4", 4611686018427387000, 4611686018427387016) "}", "tensor 'a' lies at"},
    {"too few bytes", "{" T("a", "F32", "2,3", 0, 16) "}", "tensor 'a': 2x3 in F32 takes 24 bytes, but its"},
    {"too many bytes", "{" T("a", "F16", "4", 0, 16) "}", "takes 8 bytes, but its offsets are 16 bytes apart"},
    {"bytes of an empty tensor", "{" T("a", "F32", "4,0", 0, 16) "}", "takes 0 bytes"},
    {"an overlap", "{" T("a", "F32", "3", 0, 12) "," T("b", "F32", "2", 8, 16) "}",
     "'a' and 'b' overlap from byte 8"},
    {"twice the same bytes", "{" T("a", "F32", "4", 0, 16) "," T("b", "F32", "4", 0, 16) "}", "overlap from byte 0"},
    {"one inside another", "{" T("b", "F32", "1", 4, 8) "," T("a", "F32", "4", 0, 16) "}", "'a' and 'b' overlap"},
    {"a hole at the start", "{" T("a", "F32", "3", 4, 16) "}", "bytes 0 to 4 of the data, before tensor 'a', belong"},
    {"a hole", "{" T("a", "F32", "1", 0, 4) "," T("b", "F32", "2", 8, 16) "}", "bytes 4 to 8 of the data"},
    {"bytes left over", "{" T("a", "F32", "3", 0, 12) "}", "bytes 12 to 16 of the data, the last ones"},
    {"no tensor at all", "{}", "bytes 0 to 16 of the data, the last ones"},
    {"a name twice", "{" T("a", "F32", "2", 0, 8) "," T("a", "F32", "2", 8, 16) "}", "two tensors are called 'a'"},
    {"a name twice, once escaped", "{" T("a", "F32", "2", 0, 8) "," T("\\u0061", "F32", "2", 8, 16) "}",
     "two tensors"},
    {"metadata that is no object", "{\"__metadata__\":\"x\"}", "expected '{'"},
    {"metadata with a number", "{\"__metadata__\":{\"a\":1}}", "expected '\"'"},
    {"nested metadata", "{\"__metadata__\":{\"a\":{}}}", "expected '\"'"},
    {"metadata twice", "{\"__metadata__\":{},\"__metadata__\":{}}", "a second \"__metadata__\""},
};

static void check_refused(const char *path, const char *said)
{
    safetensors *f = NULL;
    memory.largest = 0;
    CHECK_STATUS(safetensors_open(ctx, path, &f), BRASA_BAD_FILE);
    CHECK(!f);
    CHECK_HAS(brasa_context_error(ctx), path);
    CHECK_HAS(brasa_context_error(ctx), said);
    CHECK(!strchr(brasa_context_error(ctx), '\n') && !strchr(brasa_context_error(ctx), '\033'));
    CHECK(memory.largest < 100000);
}

TEST(refuses)
{
    const char *path = in_folder("bad.safetensors");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        CASE("%s", refused[i].what);
        write_tensors(path, refused[i].header, strlen(refused[i].header), "0123456789abcdef", 16);
        check_refused(path, refused[i].said);
    }
    CASE("a zero byte behind the header");
    write_tensors(path, "{}\0 ", 4, "", 0);
    check_refused(path, "expected nothing more");
}

TEST(refuses_files)
{
    const char *path = in_folder("bad.safetensors");
    CASE("no file");
    remove(path);
    check_refused(path, "No such file");
    CASE("a folder");
    check_refused(folder, "not a regular file");
    CASE("a pipe, without waiting for it");
    if (mkfifo(path, 0600) == 0)
        check_refused(path, "not a regular file");
    remove(path);
    CASE("an empty file");
    write_file(path, "", 0);
    check_refused(path, "too short");
    CASE("seven bytes");
    write_file(path, "\2\0\0\0\0\0\0", 7);
    check_refused(path, "too short");
    CASE("a header longer than the file");
    write_file(path, "\3\0\0\0\0\0\0\0{}", 10);
    check_refused(path, "announce a header of 3 bytes, but the file ends before");
    CASE("a header of 2^64 - 1 bytes");
    write_file(path, "\377\377\377\377\377\377\377\377{}", 10);
    check_refused(path, "announce a header of 18446744073709551615 bytes");
    CASE("a header of 17 MiB that is there");
    write_file(path, "\0\0\20\1\0\0\0\0{}", 10);
    if (truncate(path, 32 << 20) == 0)
        check_refused(path, "more than are read here (16 MiB)");
    CASE("a picture");
    write_file(path, "\211PNG\r\n\032\n\0\0\0\rIHDR", 16);
    check_refused(path, "not a safetensors file");
}

/* A header of `repeat` copies of a text between two others. */
static void write_repeated(const char *path, const char *before, const char *text, int repeat, const char *after)
{
    const size_t length = strlen(before) + strlen(text) * (size_t)repeat + strlen(after);
    char *header = malloc(length + 1), *to = header;
    to += sprintf(to, "%s", before);
    for (int i = 0; i < repeat; i++)
        to += sprintf(to, "%s", text);
    sprintf(to, "%s", after);
    write_tensors(path, header, length, "", 0);
    free(header);
}

TEST(limits)
{
    safetensors *f = NULL;
    const char *path = in_folder("long.safetensors");
    CASE("a million brackets");
    write_repeated(path, "{\"a\":{\"shape\":", "[", 1000000, "}");
    CHECK_STATUS(safetensors_open(ctx, path, &f), BRASA_BAD_FILE);
    CASE("a million braces");
    write_repeated(path, "", "{\"a\":", 1000000, "");
    CHECK_STATUS(safetensors_open(ctx, path, &f), BRASA_BAD_FILE);
    CASE("a name of a million letters");
    write_repeated(path, "{\"", "\xc3\xa4", 500000, "\":{}}");
    CHECK_STATUS(safetensors_open(ctx, path, &f), BRASA_BAD_FILE);
    write_repeated(path, "{\"", "\xc3\xa4", 500000,
                   "\":" /* */ "{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}");
    CHECK_STATUS(safetensors_open(ctx, path, &f), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "\xc3\xa4...' lies at bytes 0 to 4");
    CASE("65537 tensors");
    write_repeated(path, "{" T("a", "F32", "0", 0, 0), "," T("a", "F32", "0", 0, 0), 65536, "}");
    CHECK_STATUS(safetensors_open(ctx, path, &f), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "more tensors than are read here");
    CASE("65536 tensors of one name");
    write_repeated(path, "{" T("a", "F32", "0", 0, 0), "," T("a", "F32", "0", 0, 0), 65535, "}");
    CHECK_STATUS(safetensors_open(ctx, path, &f), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "two tensors are called 'a'");
    CHECK(!f);
}

/* What may be there: blanks, escapes, properties and tensors in any order, empty ones, types that are not read. */
TEST(reads)
{
    static const char header[] =
        "{ \"__metadata__\" : {\"format\":\"pt\", \"note\":\"two\\nlines \\u0001\"},\r\n"
        "\"w\\u00e4\\uD83D\\uDE00\\\"\\\\\\/\":{\"data_offsets\":[8,16],\t\"shape\":[ 1 , 1 ],\"dtype\":\"I64\"},"
        "\"later\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
        "\"empty\":{\"dtype\":\"BF16\",\"shape\":[3,0],\"data_offsets\":[8,8]},"
        "\"\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[16,19]}"
        "}  \n ";
    static const char data[] = "\0\0\x80\x3f\0\0\0\xc0\xfe\xff\xff\xff\xff\xff\xff\xff\1\0\1";
    safetensors *f = NULL;
    const char *path = in_folder("good.safetensors");
    write_tensors(path, header, strlen(header), data, 19);
    CHECK_STATUS(safetensors_open(ctx, path, &f), BRASA_OK);
    REQUIRE(f);
    CHECK_INT(f->count, 4);
    number n[2];
    const tensor_entry *t = safetensors_find(f, "later");
    REQUIRE(t && t->type == tensor_type_of(F32) && t->shape.rank == 2 && t->shape.dim[0] == 2);
    CHECK_STATUS(safetensors_read(f, t, 0, 2, n), BRASA_OK);
    CHECK(n[0].real == 1 && n[1].real == -2);
    CHECK_STATUS(safetensors_read(f, t, 1, 1, n), BRASA_OK);
    CHECK(n[0].real == -2);
    t = safetensors_find(f, "w\xc3\xa4\xf0\x9f\x98\x80\"\\/");
    REQUIRE(t && t->type->whole);
    CHECK_STATUS(safetensors_read(f, t, 0, 1, n), BRASA_OK);
    CHECK_INT(n[0].whole, -2);
    t = safetensors_find(f, "empty");
    CHECK(t && t->begin == t->end && t->shape.dim[1] == 0);
    t = safetensors_find(f, "");
    CHECK(t && !t->type->decode);
    CHECK(!safetensors_find(f, "none") && !safetensors_find(f, "zzz"));

    if (truncate(path, 8 + (off_t)strlen(header) + 6) == 0) /* while it is open */
        CHECK_STATUS(safetensors_read(f, safetensors_find(f, "later"), 0, 2, n), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "it ended at byte");
    safetensors_close(f);
    CASE("nothing in it");
    write_tensors(path, "{}", 2, "", 0);
    CHECK_STATUS(safetensors_open(ctx, path, &f), BRASA_OK);
    CHECK(f && f->count == 0 && !safetensors_find(f, "a"));
    safetensors_close(f);
}

/* All 65536 of either half-size type, against what their bits mean. */
TEST(halves)
{
    for (int brain = 0; brain < 2; brain++) {
        const int bits = brain ? 7 : 10, bias = brain ? 127 : 15, top = brain ? 255 : 31;
        const tensor_type *type = tensor_type_find(brain ? "BF16" : "F16");
        CASE("%s", type->name);
        for (int code = 0; code < 65536; code++) {
            const unsigned char bytes[2] = {(unsigned char)code, (unsigned char)(code >> 8)};
            const int exponent = code >> bits & top, fraction = code & ((1 << bits) - 1);
            const double size = exponent == 0     ? ldexp(fraction, 1 - bias - bits)
                                : exponent == top ? INFINITY
                                                  : ldexp(fraction + (1 << bits), exponent - bias - bits);
            number n;
            type->decode(bytes, 1, &n);
            if (exponent == top && fraction)
                CHECK(isnan(n.real));
            else
                CHECK(n.real == (code >> 15 ? -size : size) && !signbit(n.real) == !(code >> 15));
        }
    }
}
