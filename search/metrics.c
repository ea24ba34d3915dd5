/* metrics.h: plain arithmetic, no state. */
#include "metrics.h"

#include <math.h>

double metrics_pass_at(MetricsTask task, unsigned k) {
    unsigned n = task.samples, wrong = task.samples - task.correct;
    if (!k || task.correct > n || k > n) return NAN;
    if (wrong < k) return 1;
    /* C(n-c, k) / C(n, k) as a product of factors below 1, which does not overflow. */
    double none = 1;
    for (unsigned i = 0; i < k; i++) none *= (double)(wrong - i) / (double)(n - i);
    return 1 - none;
}

double metrics_mean_pass_at(const MetricsTask *tasks, size_t count, unsigned k) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += metrics_pass_at(tasks[i], k);
    return count ? sum / (double)count : NAN;
}

double metrics_speedup(double base_seconds, double seconds) {
    return base_seconds > 0 && seconds > 0 ? base_seconds / seconds : NAN;
}

double metrics_fast(const double *speedups, size_t count, double p) {
    size_t fast = 0;
    for (size_t i = 0; i < count; i++) fast += speedups[i] > 0 && speedups[i] >= p;
    return count ? (double)fast / (double)count : NAN;
}

double metrics_geometric_mean(const double *speedups, size_t count) {
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(speedups[i] > 0)) continue;
        sum += log(speedups[i]);
        n++;
    }
    return n ? exp(sum / (double)n) : NAN;
}

MetricsRobustness metrics_robustness(const double *efficiencies, size_t count) {
    double least = INFINITY, largest = 0;
    size_t ran = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(efficiencies[i] > 0)) continue;
        ran++;
        least = fmin(least, efficiencies[i]);
        largest = fmax(largest, efficiencies[i]);
    }
    return (MetricsRobustness){.least = ran ? least : NAN,
                               .mean = metrics_geometric_mean(efficiencies, count),
                               .worst_of_best = ran ? least / largest : NAN,
                               .covered = count ? (double)ran / (double)count : NAN};
}

static double known(double value) {
    return value >= 0 ? value : 0;
}

void metrics_add_call(MetricsUse *use, double tokens_in, double tokens_out, double tokens_cached, double cost) {
    use->calls++;
    use->without_tokens += !(tokens_in >= 0 && tokens_out >= 0);
    use->without_cost += !(cost >= 0);
    use->tokens_in += known(tokens_in);
    use->tokens_out += known(tokens_out);
    use->tokens_cached += known(tokens_cached);
    use->cost += known(cost);
}
