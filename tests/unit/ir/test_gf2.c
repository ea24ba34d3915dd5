/* Linear maps over GF(2): random composition, solving and inversion. */
#include "gf2.h"

#include "check.h"

static uint64_t random_state = 88172645463325252u;
static uint64_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state ^ (random_state << 32);
}
static uint64_t mask(unsigned bits) {
    return bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static Gf2Map random_map(unsigned in, unsigned out) {
    Gf2Map m = {.in_bits = in, .out_bits = out};
    for (unsigned i = 0; i < in; i++) {
        m.column[i] = random_next() & random_next() & mask(out);
        if (i && random_next() % 4 == 0) m.column[i] = m.column[random_next() % i];
    }
    return m;
}

static uint64_t apply_terms(const Gf2Term *terms, size_t count, uint64_t x) {
    uint64_t y = 0;
    for (size_t i = 0; i < count; i++) y ^= ((x >> terms[i].shift) & mask(terms[i].count)) << terms[i].to;
    return y;
}

static void check_map(const Gf2Map *m) {
    uint64_t free_bits = gf2_free_bits(m), x, y;
    unsigned rank = gf2_rank(m);
    CHECK(rank == m->in_bits - (unsigned)__builtin_popcountll(free_bits));
    for (int n = 0; n < 20; n++) {
        uint64_t a = random_next() & mask(m->in_bits), b = random_next() & mask(m->in_bits);
        y = gf2_apply(m, a);
        CHECK(gf2_apply(m, a ^ b) == (y ^ gf2_apply(m, b)));
        CHECK(gf2_solve(m, y, &x) && gf2_apply(m, x) == y && !(x & free_bits));
        CHECK((a & free_bits) || x == a); /* injective on the rest */
    }
    Gf2Map inverse;
    bool surjective = rank == m->out_bits;
    CHECK(gf2_invert(m, &inverse) == surjective);
    for (int n = 0; n < 20 && surjective; n++) {
        y = random_next() & mask(m->out_bits);
        CHECK(gf2_apply(m, gf2_apply(&inverse, y)) == y);
    }
    static Gf2Term terms[4096];
    unsigned first = m->in_bits / 3, bits = m->in_bits - first;
    size_t count = gf2_terms(m, first, bits, terms, COUNT_OF(terms));
    CHECK(count <= COUNT_OF(terms));
    for (int n = 0; n < 20; n++) {
        x = random_next() & mask(bits);
        CHECK(apply_terms(terms, count, x) == gf2_apply(m, x << first));
    }
}

int main(void) {
    int invertible = 0;
    for (int n = 0; n < 3000; n++) {
        unsigned a = 1 + (unsigned)(random_next() % 14), b = 1 + (unsigned)(random_next() % 10);
        unsigned c = 1 + (unsigned)(random_next() % 10);
        Gf2Map f = random_map(a, b), g = random_map(b, c), h, inverse;
        check_map(&f);
        gf2_compose(&g, &f, &h);
        uint64_t x = random_next() & mask(a);
        CHECK(gf2_apply(&h, x) == gf2_apply(&g, gf2_apply(&f, x)));
        invertible += gf2_invert(&f, &inverse);
        bool additive = true;
        for (unsigned i = 0; i < a; i++)
            for (unsigned j = 0; j < i; j++) additive = additive && !(f.column[i] & f.column[j]);
        CHECK(gf2_is_additive(&f) == additive);
    }
    CHECK(invertible > 100);
    Gf2Map wide = random_map(64, 64);
    check_map(&wide);
    Gf2Map run = {.in_bits = 5, .out_bits = 8, .column = {2, 4, 8 | 1, 16 | 2, 128}};
    Gf2Term terms[8];
    CHECK(gf2_terms(&run, 0, 5, terms, 8) == 3);
    CHECK(terms[0].shift == 0 && terms[0].count == 4 && terms[0].to == 1);
    CHECK(terms[1].shift == 2 && terms[1].count == 2 && terms[1].to == 0);
    CHECK(terms[2].shift == 4 && terms[2].count == 1 && terms[2].to == 7);
    return 0;
}
