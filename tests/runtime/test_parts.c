/* Parts of the runtime alone: .npy headers, binding, plans, the cache. */
#include "plant.h"
#include "runtime_internal.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- .npy ---- */

static bool parse(const char *dict, NpyHeader *h) {
    unsigned char file[512] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    char error[RT_TEXT];
    size_t n = strlen(dict);
    file[8] = (unsigned char)n;
    file[9] = (unsigned char)(n >> 8);
    memcpy(file + 10, dict, n);
    return npy_parse(file, 10 + n, h, error);
}

static void test_npy(void) {
    NpyHeader h;
    CHECK(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", &h));
    CHECK(h.rank == 2 && h.extents[1] == 3 && h.elements == 6 && !h.fortran);
    CHECK_STR(h.descr, "<f4");
    CHECK(parse("{'shape': (), 'fortran_order': True, 'descr': '|u1'}", &h) && h.rank == 0 && h.elements == 1 && h.fortran);
    CHECK(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", &h) && h.rank == 1);
    CHECK(!parse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (7,)}", &h));
    CHECK(!parse("{'descr': '<f4', 'fortran_order': False}", &h));
    CHECK(!parse("{'descr': '<f4', 'fortran_order': False, 'shape': (1,2,3,4,5,6,7,8,9)}", &h));
    CHECK(!parse("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", &h));
    CHECK(!parse("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4)}", &h));
    CHECK(!parse("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", &h));
    CHECK(!parse("{'descr': '<f4", &h));
    for (unsigned rank = 0; rank <= 8; rank++) { /* what we write, we read */
        static const int64_t extents[8] = {1099511627776, 1, 1, 1, 1, 1, 1, 1};
        char head[NPY_HEADER];
        char error[RT_TEXT];
        npy_print_header(head, DTYPE_BF16, rank, extents);
        CHECK(npy_parse((unsigned char *)head, sizeof head, &h, error) && h.rank == rank && h.data_offset == NPY_HEADER);
        CHECK_STR(h.descr, "<u2");
    }
}

static void test_npy_damage(void) {
    char head[NPY_HEADER], copy[NPY_HEADER], error[RT_TEXT];
    static const int64_t extents[3] = {2, 3, 4};
    NpyHeader h;
    npy_print_header(head, DTYPE_F32, 3, extents);
    for (size_t n = 0; n < sizeof head; n++) CHECK(!npy_parse((unsigned char *)head, n, &h, error));
    for (size_t i = 0; i < 80; i++)
        for (unsigned v = 0; v < 256; v++) {
            memcpy(copy, head, sizeof head);
            copy[i] = (char)v;
            if (npy_parse((unsigned char *)copy, sizeof copy, &h, error)) CHECK(h.rank <= 8 && h.data_offset <= sizeof copy);
        }
}

/* ---- Binding and plans ---- */

static RtError complete(Arena *arena, const Artifact *a, int64_t n, int64_t m, Binding *b) {
    binding_init(b, arena, a, 132, 8);
    RT_TRY(binding_set_symbol(b, "N", n));
    RT_TRY(binding_set_symbol(b, "M", m));
    return binding_complete(b);
}

static void test_binding(void) {
    Arena *arena = arena_create();
    Artifact *a = plant(arena, PLANT_GOOD);
    ArtifactConstraint c = {plant_formula(a, "M % 4"), true, "M % 4 == 0"};
    Binding b;
    CHECK(complete(arena, a, 3, 5, &b).status == RT_OK);
    CHECK(b.elements[0] == 15 && b.bytes[1] == 60 && binding_traffic_bytes(&b) == 120);
    CHECK(complete(arena, a, 0, (int64_t)1 << 62, &b).status == RT_OK); /* no elements */
    CHECK(b.elements[0] == 0);
    CHECK(complete(arena, a, (int64_t)1 << 62, 8, &b).status == RT_BAD_INPUT);
    CHECK(complete(arena, a, (int64_t)1 << 40, 2, &b).status == RT_BAD_INPUT);
    CHECK(complete(arena, a, -1, 2, &b).status == RT_BAD_INPUT);
    a->constraints = &c;
    a->constraint_count = 1;
    CHECK(complete(arena, a, 3, 8, &b).status == RT_OK);
    RtError e = complete(arena, a, 3, 5, &b);
    CHECK(e.status == RT_BAD_INPUT && strstr(e.text, "M % 4 == 0") && strstr(e.text, "M=5"));
    binding_init(&b, arena, a, 1, 1);
    e = binding_complete(&b);
    CHECK(e.status == RT_BAD_OPTION && strstr(e.text, "'N'"));
    arena_destroy(arena);
}

static void test_plan(void) {
    Arena *arena = arena_create();
    Artifact *a = plant(arena, PLANT_GOOD);
    ArtifactVersion v[2] = {a->steps[0].versions[0], a->steps[0].versions[0]};
    Launch *launches;
    size_t count;
    Binding b;
    v[0].guard = plant_formula(a, "1 - M % 4");
    v[0].grid[0] = plant_formula(a, "ceildiv(N, 8)");
    v[1].guard = plant_formula(a, "N");
    v[1].grid[0] = plant_formula(a, "min(N, num_sms)");
    v[1].grid[1] = plant_formula(a, "M - 6");
    a->steps[0].versions = v;
    a->steps[0].version_count = 2;
    CHECK(complete(arena, a, 17, 8, &b).status == RT_OK && plan_launches(&b, arena, NULL, &launches, &count).status == RT_OK);
    CHECK(count == 1 && launches[0].version_index == 0 && launches[0].grid[0] == 3 && !launches[0].skip);
    CHECK(complete(arena, a, 500, 7, &b).status == RT_OK && plan_launches(&b, arena, NULL, &launches, &count).status == RT_OK);
    CHECK(launches[0].version_index == 1 && launches[0].grid[0] == 132 && launches[0].grid[1] == 1);
    CHECK(complete(arena, a, 0, 8, &b).status == RT_OK && plan_launches(&b, arena, NULL, &launches, &count).status == RT_OK);
    CHECK(launches[0].skip);
    /* Addresses that the wide version cannot take. */
    uint64_t *addresses = ARENA_ARRAY(arena, uint64_t, a->param_count + 1);
    for (size_t i = 0; i < a->param_count; i++) addresses[i] = 4096;
    v[0].pointer_align = 16;
    CHECK(complete(arena, a, 500, 8, &b).status == RT_OK && plan_launches(&b, arena, addresses, &launches, &count).status == RT_OK);
    CHECK(launches[0].version_index == 0);
    addresses[v[0].args[0]] += 4;
    CHECK(plan_launches(&b, arena, addresses, &launches, &count).status == RT_OK && launches[0].version_index == 1);
    CHECK(complete(arena, a, 0, 7, &b).status == RT_OK);
    CHECK(plan_launches(&b, arena, NULL, &launches, &count).status == RT_LAUNCH_FAILED); /* no version fits */
    CHECK(complete(arena, a, 3, 5, &b).status == RT_OK);
    CHECK(plan_launches(&b, arena, NULL, &launches, &count).status == RT_LAUNCH_FAILED); /* a negative grid */
    CHECK(complete(arena, a, 3, 70007, &b).status == RT_OK);
    CHECK(plan_launches(&b, arena, NULL, &launches, &count).status == RT_LAUNCH_FAILED); /* y beyond 65,535 */
    arena_destroy(arena);
}

/* Launched early: behind a kernel of the same launch, whatever empty grids are between, and not behind one whose blocks meet. */
static void test_early_steps(void) {
    enum { STEPS = 5 };
    Arena *arena = arena_create();
    Artifact *a = plant(arena, PLANT_GOOD);
    ArtifactStep steps[STEPS];
    ArtifactVersion v[STEPS];
    static const bool together[STEPS] = {false, false, false, true, false};
    Launch *launches;
    size_t count;
    Binding b;
    for (int i = 0; i < STEPS; i++) {
        v[i] = a->steps[0].versions[0];
        v[i].dependent = i > 0;
        v[i].cooperative = together[i];
        v[i].grid[0] = plant_formula(a, i < 2 ? "N" : "1");
        steps[i] = a->steps[0];
        steps[i].versions = &v[i];
    }
    a->steps = steps;
    a->step_count = STEPS;
    CHECK(complete(arena, a, 3, 5, &b).status == RT_OK && plan_launches(&b, arena, NULL, &launches, &count).status == RT_OK);
    CHECK(count == STEPS && !launches[0].dependent && launches[1].dependent && launches[2].dependent);
    CHECK(!launches[4].dependent);
    CHECK(complete(arena, a, 0, 5, &b).status == RT_OK && plan_launches(&b, arena, NULL, &launches, &count).status == RT_OK);
    CHECK(launches[1].skip && !launches[1].dependent && !launches[2].dependent); /* the first that is launched */
    steps[1] = (ArtifactStep){.kind = ARTIFACT_MEMSET, .name = "clear", .param = 0, .byte = 0};
    CHECK(complete(arena, a, 3, 5, &b).status == RT_OK && plan_launches(&b, arena, NULL, &launches, &count).status == RT_OK);
    CHECK(!launches[1].dependent && !launches[2].dependent); /* behind no kernel */
    arena_destroy(arena);
}

static void test_overlap(void) {
    Arena *arena = arena_create();
    Artifact *a = plant(arena, PLANT_GOOD);
    Binding b;
    uint64_t apart[4] = {1000, 1060}, over[4] = {1000, 1056}, same[4] = {1000, 1000};
    CHECK(complete(arena, a, 3, 5, &b).status == RT_OK);
    CHECK(plan_check_overlap(&b, apart).status == RT_OK);
    CHECK(plan_check_overlap(&b, over).status == RT_BAD_INPUT);
    CHECK(plan_check_overlap(&b, same).status == RT_BAD_INPUT);
    arena_destroy(arena);
}

/* ---- Cache ---- */

static void test_cache(void) {
    char dir[] = "/tmp/sketchc-cache-XXXXXX", path[1200];
    Cache cache;
    Str payload, file;
    RtCacheInfo info;
    Hash128 key = {1, 2}, other = {1, 3};
    str_init(&payload);
    str_init(&file);
    CHECK(mkdtemp(dir));
    cache_open(&cache, dir);
    CHECK_STR(cache.dir, dir);
    CHECK(!cache_get(&cache, key, "so", &payload));
    cache_put(&cache, key, "so", "content", 7);
    CHECK(cache_get(&cache, key, "so", &payload) && payload.len == 7 && memcmp(payload.data, "content", 7) == 0);
    CHECK(!cache_get(&cache, other, "so", &payload));
    CHECK(rt_cache_info(dir, &info) && info.entries == 1 && info.bytes == 39);
    cache_path(&cache, key, "so", path, sizeof path);
    CHECK(file_read(path, 1 << 20, &file));
    for (size_t i = 0; i < file.len; i++) { /* every damaged byte is a miss */
        file.data[i] ^= 1;
        CHECK(file_write_atomic(path, file.data, file.len, 0600));
        CHECK(!cache_get(&cache, key, "so", &payload));
        file.data[i] ^= 1;
    }
    CHECK(rt_cache_clear(dir) == 1 && rt_cache_info(dir, &info) && info.entries == 0);
    setenv("SKETCHC_CACHE_LIMIT", "100", 1);
    for (uint64_t i = 0; i < 4; i++) {
        cache_put(&cache, (Hash128){i, 9}, "so", "content", 7);
        usleep(20000); /* file times must differ for the oldest to be known */
    }
    CHECK(rt_cache_info(dir, &info) && info.bytes <= 100 && info.entries == 2);
    CHECK(cache_get(&cache, (Hash128){3, 9}, "so", &payload) && !cache_get(&cache, (Hash128){0, 9}, "so", &payload));
    CHECK(rt_cache_clear(dir) == 2 && rmdir(dir) == 0);
    cache_open(&cache, "");
    CHECK_STR(cache.dir, "");
    CHECK(mkdir(dir, 0777) == 0 && chmod(dir, 0777) == 0);
    cache_open(&cache, dir); /* others could plant entries there */
    CHECK_STR(cache.dir, "");
    CHECK(rmdir(dir) == 0);
    str_release(&payload);
    str_release(&file);
}

int main(void) {
    test_npy();
    test_npy_damage();
    test_binding();
    test_plan();
    test_early_steps();
    test_overlap();
    test_cache();
    return 0;
}
