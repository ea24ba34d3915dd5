/* Mutations: what each does to a sketch, that equal seeds repeat, and that proposals do too. */
#include "mutate.h"
#include "rules.h"
#include "sketchc.h"

#include <stdio.h>
#include <string.h>

static int failures;
#define CHECK(what)                                                                                                                        \
    do {                                                                                                                                   \
        if (!(what)) failures += printf("%s:%d: %s\n", __FILE__, __LINE__, #what) > 0;                                                     \
    } while (0)

static const char sketch[] = "sketch s implements o {\n"
                             "    symbols: M, N;\n"
                             "    tensors: X[M, N]: f32, Y[M, N]: f32;\n"
                             "    constexpr: T = 64;\n\n"
                             "    for i in range(M):\n"
                             "        for j in range(0, ceil(N, T)):\n"
                             "            x = alloc([T])\n"
                             "            load(X[i, j*T:(j+1)*T] -> x)\n"
                             "            store(x -> Y[i, j*T:(j+1)*T])\n"
                             "}\n";

static bool yields(Mutation mutation, const char *want) {
    Str out;
    bool found = false;
    str_init(&out);
    for (uint64_t seed = 0; seed < 64 && !found; seed++) {
        uint64_t state = seed;
        found = mutate_sketch(sketch, mutation, &state, &out) && strstr(out.data, want);
    }
    str_release(&out);
    return found;
}

static void test_mutations(void) {
    CHECK(yields(MUTATION_TUNE, "    constexpr: T = 32;\n"));
    CHECK(yields(MUTATION_TUNE, "    constexpr: T = 128;\n"));
    CHECK(yields(MUTATION_UNROLL, "        @llm_hint(\"unroll\", factor=4)\n        for j in"));
    CHECK(yields(MUTATION_PARALLEL, "    @llm_hint(\"parallel\", \"coreidx\")\n    for i in"));
    CHECK(yields(MUTATION_INTERCHANGE, "    for j in range(0, ceil(N, T)):\n        for i in range(M):\n"));
}

static void test_repeats(void) {
    for (int m = 0; m < MUTATION_COUNT; m++) {
        uint64_t a = 5, b = 5;
        Str one, two;
        str_init(&one);
        str_init(&two);
        bool first = mutate_sketch(sketch, (Mutation)m, &a, &one), second = mutate_sketch(sketch, (Mutation)m, &b, &two);
        CHECK(first == second && a == b && strcmp(one.data, two.data) == 0);
        str_release(&one);
        str_release(&two);
    }
}

static void test_rules(void) {
    static const char op[] = "operator o {\n    symbols: N;\n    tensors: X[N]: f32, Y[N]: f32;\n    Y = X + 1\n"
                             "    case small { N=9 }\n}\n";
    Proposer *rules = proposer_rules_create();
    ProposerRequest r = {.operator_name = "o", .operator_text = op, .target = "openmp", .arch = "x86-64-v3"};
    ProposerReply reply;
    proposer_reply_init(&reply);
    rules->propose(rules, &r, 1, &reply);
    CHECK(reply.status == PROPOSED && strncmp(reply.sketch.data, "sketch o_naive implements o {", 29) == 0);
    proposer_reply_release(&reply);
    proposer_reply_init(&reply);
    r.attempt = 1000;
    rules->propose(rules, &r, 1, &reply);
    CHECK(reply.status == PROPOSER_EXHAUSTED);
    proposer_reply_release(&reply);
    proposer_destroy(rules);
}

/* The store's view `shapes` knows naive designs by their names. */
static void test_naive_names(void) {
    for (size_t i = 0; i < sketchc_design_count(); i++)
        CHECK(sketchc_design_is_naive(i) == (strncmp(sketchc_design_name(i), "naive", 5) == 0));
}

int main(void) {
    test_mutations();
    test_naive_names();
    test_repeats();
    test_rules();
    puts(failures ? "failed" : "mutations, their seeds and the rules");
    return failures ? 1 : 0;
}
