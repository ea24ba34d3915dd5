/* The conductor: what went wrong with a candidate, mended by the compiler's own fix-its where they suffice, and
 * told to the proposer where they do not (Algorithm 1 of the AKG Kernel Agent paper, with the compiler in the
 * coder's place). Sees only what the public header gives: diagnostics and reports. */
#ifndef SEARCH_CONDUCTOR_H
#define SEARCH_CONDUCTOR_H

#include "proposer.h"
#include "sketchc.h"
#include "store/store.h"

enum { SEARCH_ARTIFACT_LIMIT = 4 << 20 }; /* bytes of an artifact that is kept */

typedef enum {
    FAILURE_NONE,
#define FAILURE(id, name, blame, codes, statuses, advice) FAILURE_##id,
#include "failures.def"
#undef FAILURE
    FAILURE_COUNT
} FailureKind;

const char *failure_name(FailureKind kind); /* "none", "syntax", ... */
/* Of a job that took too long, by what it says that it was at: "verifying took ..." */
FailureKind failure_of_hang(const char *why);
const char *failure_advice(FailureKind kind);      /* "" for none */
bool failure_is_sketchs(FailureKind kind);         /* the sketch is said to be wrong */
FailureKind failure_of_code(const char *code);     /* "E0302": SHAPE; of what has no row: SYNTAX */
FailureKind failure_of_status(const char *status); /* of a report; "ok": NONE */

#define SAME_CODE "same code as candidate "      /* and its number: a status that is no failure */
FailureKind failure_of_result(const char *text); /* of a status or a kind's name, as the store keeps them */

/* What to judge by. `size` is for later fields as in the public header. */
typedef struct {
    const char *target, *arch; /* null: the defaults of sketchc_options */
    const char *target_file;   /* text; null */
    const char *operator_name, *operator_text;
    const sketchc_define *defines; /* constexprs, and sizes for all cases */
    size_t define_count;
    uint64_t seed, drawn;         /* drawn: of a second verification, which no earlier answer knows of; 0: another each time */
    double time_limit_s;          /* of one case; 0: the default */
    double deadline;              /* seconds_now: what is not judged then is left; 0: none */
    const char *codes;            /* identities of code that was judged before, with commas: an equal one is not verified; null: none */
    const char *case_name;        /* the case that is measured; null: the largest declared one */
    unsigned samples;             /* of the measurement; 0: chosen */
    bool measure, roof;           /* roof: say what limits a measured one */
    bool keep;                    /* the artifact's bytes, too */
    struct ChildChannel *channel; /* in a judge: told of each step; else null */
} JudgeOptions;

typedef struct {
    FailureKind failure;                         /* NONE: compiled and verified in all cases and ragged sizes */
    Str sketch;                                  /* as judged: fix-its applied */
    unsigned fixes;                              /* how many were applied */
    unsigned first_line;                         /* of the sketch in the diagnostics */
    Str outcome;                                 /* one line for people */
    Str diagnostics, explanation, verdict, roof; /* for the next request; "" where there is nothing */
    double seconds, noise;                       /* median and noise of the measured case; 0: not measured */
    StoreResult measured;                        /* all that the store keeps of that, where it was measured */
    char case_name[64], device[128], arch[32];
    char code[33];    /* of what compiled (sketchc_artifact_identity); else "" */
    bool told_drawn;  /* the verdict tells of the drawn data: no later one may be judged by them */
    bool same;        /* it is among the codes of the options: that one's verdict is its own */
    Str artifact;     /* of one that was verified and is to be kept */
    Hash128 identity; /* of the sketch's text in the one style: equal for candidates that differ in layout only */
} Judgement;

void judgement_init(Judgement *j);
void judgement_release(Judgement *j);

/* Compiles, mends, verifies, measures. `sketch` is one block; it is joined with the operator's text, so
 * that it cannot bring an operator of its own. Runs in the caller's thread; kernels run in their worker. */
void judge_sketch(const JudgeOptions *options, const char *sketch, Judgement *j);

/* The sketch in the one style, as the store knows it; false when it does not parse. */
bool sketch_in_style(const char *operator_text, const char *sketch, Str *block);

/* The identity alone, without judging: to drop candidates that were seen. False when it does not parse; the
 * identity is then that of the text. */
bool sketch_identity(const char *operator_text, const char *sketch, Hash128 *identity);

/* -D in the orders of judges: a member "defines". What is read points into the JSON; at most `most`, how many is returned. */
enum { CONDUCTOR_MOST_DEFINES = 64 };
/* "N=5000, T=64", for people. */
void conductor_name_defines(const sketchc_define *defines, size_t count, Str *out);
void conductor_put_defines(const sketchc_define *defines, size_t count, Str *out);
struct Json;
size_t conductor_read_defines(const struct Json *order, sketchc_define defines[CONDUCTOR_MOST_DEFINES]);

/* sketchc_compile; `bytes` (may be null) gets the artifact as a file has it. */
sketchc_status conductor_compile(sketchc_unit *unit, const sketchc_options *options, Str *bytes, sketchc_artifact **artifact);

/* What kind of failure a compile ended in, by its status and diagnostics (JSON; null: none). `outcome` gets
 * the first error, `explanation` what its codes mean; both may be null. */
FailureKind conductor_compile_failure(sketchc_status status, const char *json, Str *outcome, Str *explanation);

/* Applies the fix-its of the errors in `json` (sketchc_diagnostics(unit, "json")) that lie at or behind byte
 * `from` of `source`. Returns how many; overlapping ones wait for the next round. */
unsigned conductor_apply_fixes(const char *json, size_t from, Str *source);

/* From the system's randomness, below 2^53, never 0. */
uint64_t seed_drawn(void);

/* The verdict on a report of sketchc_verify. A size that was skipped because of a constraint that the operator
 * does not have is EVASION: a sketch may not choose its cases. `text` gets what a repair should know. */
FailureKind conductor_read_report(const char *json, const char *operator_text, Str *text);

/* What limits a sketch that is right: `file` is operator and sketch, `seconds` and `percent_of_copy` as measured (0: not).
 * Predicted and measured part of the floor, the roof that binds and what would lift it, by the target's cost model; where the
 * model knows no ceilings it says so. */
void conductor_roof(const JudgeOptions *options, const char *file, const char *case_name, double seconds, double percent_of_copy, Str *out);

/* Fills the fields of a request that describe a failed candidate; `candidate` and the strings are
 * the judgement's and live as long. */
void conductor_repair_request(const Judgement *j, ProposerCandidate *candidate, ProposerRequest *request);

#endif
