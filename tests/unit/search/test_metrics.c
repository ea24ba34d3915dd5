/* The figures against values worked out by hand. */
#include "metrics.h"

#include "check.h"

#include <math.h>

static void near(double got, double want) {
    if (fabs(got - want) > 1e-12 * fmax(1, fabs(want))) {
        fprintf(stderr, "got %.17g, want %.17g\n", got, want);
        exit(1);
    }
}

static void check_pass(void) {
    near(metrics_pass_at((MetricsTask){4, 1}, 1), 0.25);
    near(metrics_pass_at((MetricsTask){4, 1}, 4), 1);
    near(metrics_pass_at((MetricsTask){4, 2}, 2), 1 - 1.0 / 6);     /* C(2,2) / C(4,2) */
    near(metrics_pass_at((MetricsTask){10, 3}, 5), 1 - 21.0 / 252); /* C(7,5) / C(10,5) */
    near(metrics_pass_at((MetricsTask){5, 0}, 3), 0);
    near(metrics_pass_at((MetricsTask){5, 5}, 1), 1);
    near(metrics_pass_at((MetricsTask){5, 3}, 3), 1);         /* only two are wrong */
    near(metrics_pass_at((MetricsTask){2000, 1}, 1000), 0.5); /* C(2000, 1000) fits no double */
    CHECK(isnan(metrics_pass_at((MetricsTask){3, 1}, 4)));
    CHECK(isnan(metrics_pass_at((MetricsTask){3, 1}, 0)));
    CHECK(isnan(metrics_pass_at((MetricsTask){3, 4}, 1)));
    MetricsTask tasks[] = {{4, 4}, {4, 0}, {4, 1}};
    near(metrics_mean_pass_at(tasks, 3, 1), (1 + 0 + 0.25) / 3);
    near(metrics_mean_pass_at(tasks, 3, 4), 2.0 / 3);
    CHECK(isnan(metrics_mean_pass_at(tasks, 0, 1)));
}

/* Drawn by hand: of n answers the c last are right; every choice of k is looked at. */
static void check_pass_by_counting(void) {
    enum { MOST = 10 };
    for (unsigned n = 1; n <= MOST; n++)
        for (unsigned c = 0; c <= n; c++)
            for (unsigned k = 1; k <= n; k++) {
                unsigned all = 0, right = 0;
                for (unsigned set = 0; set < 1u << n; set++) {
                    if ((unsigned)__builtin_popcount(set) != k) continue;
                    all++;
                    right += (set >> (n - c)) != 0;
                }
                near(metrics_pass_at((MetricsTask){n, c}, k), (double)right / all);
            }
}

static void check_speed(void) {
    double speedups[] = {0.5, 1, 2, 4, 0, NAN};
    near(metrics_speedup(3, 1.5), 2);
    CHECK(isnan(metrics_speedup(3, 0)) && isnan(metrics_speedup(-1, 2)));
    near(metrics_fast(speedups, 6, 1), 0.5);
    near(metrics_fast(speedups, 6, 2), 2.0 / 6);
    near(metrics_fast(speedups, 6, 0), 4.0 / 6); /* the unsolved are not fast at p = 0 either */
    CHECK(isnan(metrics_fast(speedups, 0, 1)));
    near(metrics_geometric_mean(speedups, 6), sqrt(2)); /* (0.5 * 1 * 2 * 4)^(1/4) */
    near(metrics_geometric_mean(speedups + 2, 1), 2);
    CHECK(isnan(metrics_geometric_mean(speedups + 4, 2)));
}

static void check_robustness(void) {
    double even[] = {0.8, 0.8}, uneven[] = {0.2, 0.8, 0, 0.4};
    MetricsRobustness r = metrics_robustness(even, 2);
    near(r.least, 0.8);
    near(r.worst_of_best, 1);
    near(r.covered, 1);
    r = metrics_robustness(uneven, 4);
    near(r.least, 0.2);
    near(r.worst_of_best, 0.25);
    near(r.mean, 0.4); /* (0.2 * 0.8 * 0.4)^(1/3) = 0.064^(1/3) */
    near(r.covered, 0.75);
    CHECK(isnan(metrics_robustness(even, 0).covered) && isnan(metrics_robustness(uneven + 2, 1).least));
}

static void check_use(void) {
    MetricsUse use = {0};
    metrics_add_call(&use, 100, 20, 50, 0.5);
    metrics_add_call(&use, 10, -1, -1, -1);
    CHECK(use.calls == 2 && use.without_tokens == 1 && use.without_cost == 1);
    near(use.tokens_in, 110);
    near(use.tokens_out, 20);
    near(use.tokens_cached, 50);
    near(use.cost, 0.5);
}

int main(void) {
    check_pass();
    check_pass_by_counting();
    check_speed();
    check_robustness();
    check_use();
    return 0;
}
