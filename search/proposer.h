/* Proposers: whoever suggests sketches. A search asks through this interface and does not know
 * whether a model, a program, a recording or the compiler's own rules answer; what comes back is text
 * that nobody trusts: it is parsed, compiled, verified and timed like any other. llm/ implements it
 * for models, programs and recordings (llm.h), search/ for the deterministic proposer.
 *
 * A request states a task in full, so that a proposer needs no memory of earlier ones: equal requests
 * are answered from the same prompt. All texts are the caller's and live until the call returns. */
#ifndef SEARCH_PROPOSER_H
#define SEARCH_PROPOSER_H

#include "store/store.h"
#include "support.h"

typedef enum {
    PROPOSE_DESIGN,   /* a new sketch; with parents: a better one than they are */
    PROPOSE_REPAIR,   /* `failed` with its fault taken away */
    PROPOSE_DESCRIBE, /* no sketch: a few words on what operator_text computes; the answer is in `raw` */
    PROPOSE_SHORTEN   /* no sketch: operator_text is documentation, which is to become shorter; the answer is in `raw` */
} ProposerTask;

/* A sketch that was tried, and what came of it. */
typedef struct {
    const char *sketch;  /* the `sketch` block */
    const char *outcome; /* one line for people: "verified, 1.82 ms", "E0301: ..." */
    bool verified;
    double seconds;      /* median at the case that is optimised; 0: not measured */
    unsigned first_line; /* of the sketch in the diagnostics' text; 0: it is shown without numbers */
} ProposerCandidate;

/* A sketch of another operator, found as similar. */
typedef struct {
    const char *operator_text, *sketch, *note; /* note: why it was chosen, its time; may be null */
} ProposerExample;

typedef struct {
    ProposerTask task;
    const char *operator_name;         /* as in `implements NAME` */
    const char *operator_text;         /* the whole `operator` block with its cases */
    const char *target;                /* "nvptx", "cuda", "openmp" */
    const char *arch;                  /* "sm_90a", "x86-64-v3", ...; what is judged is made for the same */
    const char *machine;               /* the machine in words; null: not known */
    const char *given;                 /* what -D gives in place of the cases' sizes: "N=5000"; null or "": nothing */
    const ProposerCandidate *standard; /* what the compiler makes by itself, which an answer has to beat; null: not known */

    const ProposerCandidate *parents; /* best first, bad ones last; may be none */
    size_t parent_count;
    const ProposerCandidate *failed;  /* PROPOSE_REPAIR: what is to be mended, null when the answer held no sketch */
    const ProposerCandidate *history; /* PROPOSE_REPAIR: what was tried before it, oldest first */
    size_t history_count;
    /* What is known of `failed`, or of the first parent; each null when there is nothing. */
    const char *failure;     /* its class: a row of search/failures.def */
    bool blameless;          /* of that class: the sketch is not said to be wrong */
    const char *diagnostics; /* the compiler's text */
    const char *explanation; /* of the diagnostics' codes */
    const char *verdict;     /* first wrong index, value and expected value; time limit; crash */
    const char *roof;        /* predicted and measured part of the roof, what binds, what would help */
    const char *strategy;    /* what to try: contrastive analysis, a bandit's arm; may be null */

    const ProposerExample *examples; /* most similar first */
    size_t example_count;

    uint64_t seed;            /* of the proposer's own choices; a model is given it where it takes one */
    unsigned attempt;         /* tells samples of one prompt apart: 0, 1, ... */
    size_t token_budget;      /* of the prompt; 0: the proposer's */
    double time_limit_s;      /* of the answer; 0: the proposer's */
    double deadline;          /* seconds_now: what is not answered then is left; 0: none */
    const atomic_int *cancel; /* non-zero: give up soon; may be null */
} ProposerRequest;

/* Everything that may come of a request; the table is in proposer.c. */
typedef enum {
    PROPOSED,           /* `sketch` holds a block; whether it is any good is not looked at */
    PROPOSED_TRUNCATED, /* the answer ended early (token or byte limit); `sketch` if one was whole */
    PROPOSED_NOTHING,   /* an answer without a sketch block */
    PROPOSED_REFUSED,   /* the model declined */
    PROPOSER_EXHAUSTED, /* has no further idea for this request, now and later */
    PROPOSER_FAILED,    /* transport or malformed answers; retries are used up */
    PROPOSER_REJECTED,  /* the endpoint's final word: key, model or request is wrong. Do not ask again */
    PROPOSER_BUDGET,    /* a limit on calls, tokens or cost would be passed. Do not ask again */
    PROPOSER_CANCELLED,
    PROPOSER_STATUS_COUNT
} ProposerStatus;

typedef struct {
    ProposerStatus status;
    Str sketch;                                   /* the block alone, "" unless there is one: no other block of the answer is kept */
    Str raw;                                      /* the answer as it came, cut at the limit; no credentials */
    Str error;                                    /* one line for people; no credentials; "" when all went well */
    int64_t tokens_in, tokens_out, tokens_cached; /* as reported; -1: not known */
    double cost;                                  /* in the configured currency; negative: not known */
    double seconds;                               /* of the call, as recorded when replayed */
    unsigned tries;                               /* requests sent, with retries; 0: replayed or made here */
    bool replayed, other_prompt;                  /* other_prompt: recorded for a prompt that said something else */
} ProposerReply;

typedef struct Proposer Proposer;
struct Proposer {
    const char *name;   /* of the kind: "model", "command", "replay", "design"; static */
    const char *detail; /* which one: "qwen3-coder at localhost:11434"; owned by the proposer */
    unsigned parallel;  /* requests it works on at one time; >= 1. More may be given in one call */
    /* Answers all `count` requests; replies[i] is initialised by the caller and belongs to it. Every
     * reply gets a status; nothing else is returned. One call at a time for each proposer. */
    void (*propose)(Proposer *self, const ProposerRequest *requests, size_t count, ProposerReply *replies);
    void (*destroy)(Proposer *self);
};

void proposer_reply_init(ProposerReply *reply);
void proposer_reply_release(ProposerReply *reply);
const char *proposer_status_name(ProposerStatus status); /* "proposed", "truncated", ... */
/* What the store is told of a reply by `proposer`; the texts stay the caller's. The rest of the call is the caller's to set. */
StoreCall proposer_call(const char *proposer, const ProposerReply *reply);
bool proposer_status_is_final(ProposerStatus status); /* asking again is of no use */
void proposer_destroy(Proposer *proposer);            /* null is allowed */

/* Copies the last whole `sketch ... { ... }` block of an answer into `block` (initialised, replaced);
 * whatever stands around it, also blocks called `operator`, is left behind. Knows comments and strings,
 * nothing else of the language. False, with "" in `block`, when there is none; *begun (may be null) says
 * whether one begins that never ends. Linear in `size`. */
bool proposer_extract_sketch(const char *text, size_t size, Str *block, bool *begun);

/* Appends the first `operator NAME { ... }` block and its name; false when there is none. For files that are
 * known to be sound. */
bool proposer_extract_operator(const char *text, size_t size, Str *block, Str *name);

#endif
