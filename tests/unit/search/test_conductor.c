/* Kinds of failure, fix-its, reports, and whole judgements on the processor. */
#include "conductor.h"

#include "check.h"

static const char op[] = "operator scale {\n    symbols: N, N <= 100000;\n    tensors: X[N]: f32; Y[N]: f32;\n"
                         "    Y = 2 * X + 1\n    case small { N=100; X: normal(0, 1) }\n"
                         "    case large { N=5000; X: normal(0, 1) }\n}\n";

/* A sketch of `scale` with the given symbols and statements. */
static const char *sketch(const char *symbols, const char *loop, const char *load, const char *rest) {
    static char text[2048];
    snprintf(text, sizeof text,
             "sketch s implements scale {\n    symbols: %s;\n    tensors: X[N]: f32; Y[N]: f32;\n    %s:\n"
             "        x = alloc([64])\n        load(X[%s] -> x)\n%s        store(x -> Y[i*64:(i+1)*64])\n}\n",
             symbols, loop, load, rest);
    return text;
}

static FailureKind judge(const char *text, Judgement *j) {
    JudgeOptions o = {.target = "openmp", .operator_name = "scale", .operator_text = op, .measure = true, .samples = 3};
    judgement_release(j);
    judgement_init(j);
    judge_sketch(&o, text, j);
    return j->failure;
}

#define N "N, N <= 100000"
#define LOOP "for i in range(ceil(N, 64))"
#define SLICE "i*64:(i+1)*64"
#define WORK "        x *= 2\n        x += 1\n"

static void kinds(void) {
    CHECK(failure_of_code("E0101") == FAILURE_SYNTAX && failure_of_code("E0201") == FAILURE_SYNTAX);
    CHECK(failure_of_code("E0302") == FAILURE_SHAPE && failure_of_code("E0411") == FAILURE_RACE);
    CHECK(failure_of_code("E0726") == FAILURE_CAPACITY && failure_of_code("B0720") == FAILURE_BUG);
    CHECK(failure_of_status("ok") == FAILURE_NONE && failure_of_status("hang") == FAILURE_TIMEOUT);
    CHECK(failure_of_status("mismatch") == FAILURE_NUMERICAL && failure_of_status("?") == FAILURE_BUG);
    for (unsigned k = 0; k < FAILURE_COUNT; k++) CHECK(failure_name((FailureKind)k)[0] && (k == 0) == !failure_advice((FailureKind)k)[0]);
}

static FailureKind of_report(const char *status, const char *text) {
    char report[512];
    Str told;
    str_init(&told);
    snprintf(report, sizeof report,
             "{\"status\":\"%s\",\"cases\":[{\"name\":\"large\",\"sizes\":\"N=9\",\"status\":\"%s\",\"text\":\"%s\"}]}", status, status,
             text);
    FailureKind kind = conductor_read_report(report, op, &told);
    str_release(&told);
    return kind;
}

/* What is not the sketch's is not put down to it, and each class has a text of its own. */
static void blame(void) {
    static const FailureKind nobodys[] = {FAILURE_TIES, FAILURE_POWER, FAILURE_REFERENCE, FAILURE_MACHINE, FAILURE_BUG};
    for (size_t i = 0; i < COUNT_OF(nobodys); i++) CHECK(!failure_is_sketchs(nobodys[i]));
    CHECK(failure_is_sketchs(FAILURE_NUMERICAL) && failure_is_sketchs(FAILURE_TIMEOUT) && failure_is_sketchs(FAILURE_SYNTAX));
    for (unsigned a = 1; a < FAILURE_COUNT; a++)
        for (unsigned b = 1; b < a; b++) CHECK(strcmp(failure_advice((FailureKind)a), failure_advice((FailureKind)b)) != 0);
    CHECK(of_report("hang", "the first launch did not end within 2 s") == FAILURE_TIMEOUT);
    CHECK(of_report("hang", "running the naive form did not end within 900 s") == FAILURE_REFERENCE);
    CHECK(failure_of_hang("verifying took longer than 180 s") == FAILURE_REFERENCE);
    CHECK(failure_of_hang("compiling took longer than 60 s") == FAILURE_BUG &&
          failure_of_hang("timing took longer than 180 s") == FAILURE_TIMEOUT);
    for (unsigned k = 0; k < FAILURE_COUNT; k++) CHECK(failure_of_result(failure_name((FailureKind)k)) == (FailureKind)k);
    CHECK(of_report("near_ties", "") == FAILURE_TIES && of_report("powerless", "") == FAILURE_POWER);
    Judgement j;
    ProposerCandidate failed;
    ProposerRequest request = {0};
    judgement_init(&j);
    j.failure = FAILURE_TIES;
    conductor_repair_request(&j, &failed, &request);
    CHECK(request.blameless && strcmp(request.failure, "near ties") == 0);
    j.failure = FAILURE_NUMERICAL;
    conductor_repair_request(&j, &failed, &request);
    CHECK(!request.blameless);
    judgement_release(&j);
}

/* Known on a GPU whose ceilings are in its document, said to be unknown elsewhere. */
static void roofs(void) {
    Str file, text;
    str_init(&file);
    str_init(&text);
    str_printf(&file, "%s%s", op, sketch(N, LOOP, SLICE, WORK));
    JudgeOptions gpu = {.target = "cuda", .arch = "sm_90a"}, cpu = {.target = "openmp", .arch = "x86-64-v3"};
    conductor_roof(&gpu, file.data, "large", 8.8e-6, 12, &text);
    CHECK(strstr(text.data, "Measured 0.0088 ms at large, 12 % of the rate of a copy.\nPredicted 0.002979 ms, 74 % of the floor"));
    CHECK(strstr(text.data, "measured 25 % of it") && strstr(text.data, "the launch itself binds") && strstr(text.data, "fewer kernels"));
    str_release(&text);
    str_init(&text);
    conductor_roof(&cpu, file.data, "large", 1e-3, 0, &text);
    CHECK_STR(text.data, "Measured 1 ms at large.\nThe predicted time and the roof that binds are not known for x86-64-v3.\n");
    str_release(&text);
    str_release(&file);
}

static void judgements(void) {
    Judgement j;
    judgement_init(&j);
    CHECK(judge(sketch(N, LOOP, SLICE, WORK), &j) == FAILURE_NONE);
    CHECK(j.seconds > 0 && strcmp(j.case_name, "large") == 0 && !j.fixes);
    Hash128 first = j.identity, other;
    CHECK(sketch_identity(op,
                          "sketch s implements scale { symbols: N, N<=100000; tensors: X[N]: f32; Y[N]: f32;\n"
                          "    for i in range(ceil(N,64)):\n      x=alloc([64])\n      load(X[i*64:(i+1)*64]->x)\n"
                          "      x*=2\n      x+=1\n      store(x->Y[i*64:(i+1)*64]) \n}",
                          &other));
    CHECK(memcmp(&first, &other, sizeof first) == 0);

    /* The commonest mistake has a fix-it. */
    CHECK(judge(sketch(N, LOOP, "i:i+64", WORK), &j) == FAILURE_NONE && j.fixes == 1);
    CHECK(strstr(j.sketch.data, "i*64:") != NULL);

    CHECK(judge(sketch(N, LOOP, SLICE, "        x = = 2\n"), &j) == FAILURE_SYNTAX);
    CHECK(strstr(j.outcome.data, "E0101") && strstr(j.explanation.data, "E0101: ") && j.diagnostics.len);
    CHECK(judge(sketch(N, LOOP, "i*64:(i+1)*64+1", WORK), &j) == FAILURE_SHAPE);
    CHECK(judge("sketch s implements scale {\n    symbols: N, N <= 100000;\n    tensors: X[N]: f32; Y[N]: f32;\n"
                "    @llm_hint(\"parallel\", \"coreidx\")\n    for i in range(N):\n        x = alloc([2])\n"
                "        load(X[i:i+2] -> x)\n        store(x -> Y[i:i+2])\n}\n",
                &j) == FAILURE_RACE);
    CHECK(judge(sketch(N, LOOP, SLICE, "        x *= 2\n"), &j) == FAILURE_NUMERICAL);
    CHECK(strstr(j.verdict.data, "worst at") && strncmp(j.outcome.data, "numerical: ", 11) == 0);
    CHECK(judge(sketch("N, N <= 100", LOOP, SLICE, WORK), &j) == FAILURE_EVASION);
    CHECK(judge(sketch("N, N <= 1000000, N % 100 == 0", LOOP, SLICE, WORK), &j) == FAILURE_EVASION);
    CHECK(judge("sketch s { symbols: N; tensors: X[N]: f32; Y[N]: f32; x = alloc([N])\n load(X[:] -> x)\n store(x -> Y[:]) }", &j) !=
          FAILURE_NONE);

    ProposerCandidate candidate;
    ProposerRequest request = {0};
    CHECK(judge(sketch(N, LOOP, SLICE, "        x *= 2\n"), &j) == FAILURE_NUMERICAL);
    conductor_repair_request(&j, &candidate, &request);
    CHECK(request.task == PROPOSE_REPAIR && request.failed == &candidate && !candidate.verified);
    CHECK_STR(request.failure, "numerical");
    judgement_release(&j);
}

static void fixes(void) {
    static const char json[] =
        "{\"diagnostics\": [{\"severity\": \"error\", \"fix\": {\"edits\": [{\"text\": \"Z\", \"location\": {\"begin\": {\"offset\": 1}, "
        "\"end\": {\"offset\": 2}}}]}}, {\"severity\": \"error\", \"fix\": {\"edits\": [{\"text\": \"XY\", \"location\": {\"begin\": "
        "{\"offset\": 4}, \"end\": {\"offset\": 5}}}]}}, {\"severity\": \"error\", \"fix\": {\"edits\": [{\"text\": \"!\", \"location\": "
        "{\"begin\": {\"offset\": 5}, \"end\": {\"offset\": 99}}}]}}, {\"severity\": \"warning\", \"fix\": {\"edits\": [{\"text\": \"?\", "
        "\"location\": {\"begin\": {\"offset\": 3}, \"end\": {\"offset\": 3}}}]}}]}";
    Str source;
    str_init(&source);
    str_append(&source, "abcdef");
    /* The first lies before what may be changed, the third ends behind the text, the fourth is no error. */
    CHECK(conductor_apply_fixes(json, 3, &source) == 1);
    CHECK_STR(source.data, "abcdXYf");
    CHECK(conductor_apply_fixes("no json", 0, &source) == 0);
    CHECK_STR(source.data, "abcdXYf");
    str_release(&source);
}

static void reports(void) {
    Str text;
    str_init(&text);
    CHECK(conductor_read_report("{\"status\":\"ok\",\"cases\":[]}", op, &text) == FAILURE_EVASION);
    CHECK(conductor_read_report("nonsense", op, &text) == FAILURE_BUG);
    CHECK(conductor_read_report("{\"status\":\"ok\",\"cases\":[{\"status\":\"ok\"},{\"status\":\"skipped\",\"text\":"
                                "\"the constraint 'N<=100000' does not hold at N=1\"}]}",
                                op, &text) == FAILURE_NONE);
    CHECK(conductor_read_report("{\"status\":\"ok\",\"cases\":[{\"status\":\"ok\"},{\"status\":\"skipped\",\"text\":"
                                "\"the constraint 'N <= 10000' does not hold at N=1\"}]}",
                                op, &text) == FAILURE_EVASION);
    str_release(&text);
    /* What would have been right is told to nobody who may answer once more. */
    str_init(&text);
    CHECK(
        conductor_read_report("{\"status\":\"mismatch\",\"cases\":[{\"status\":\"mismatch\",\"check\":\"bound\",\"sizes\":\"N=3\",\"text\":"
                              "\"Y: 1 of 3 elements are outside their bound; worst at 2: got 0, want 1.25 within 1e-07\"}]}",
                              op, &text) == FAILURE_NUMERICAL);
    CHECK_STR(text.data, "at N=3: mismatch (bound): Y: 1 of 3 elements are outside their bound; worst at 2: got 0\n");
    str_release(&text);
    CHECK(seed_drawn() != seed_drawn());
}

int main(void) {
    kinds();
    blame();
    fixes();
    reports();
    roofs();
    judgements();
    return 0;
}
