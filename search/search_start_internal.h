/* Shared by search.c and search_start.c: the state of a run. */
#ifndef SEARCH_SEARCH_START_INTERNAL_H
#define SEARCH_SEARCH_START_INTERNAL_H

#include "search_internal.h"

/* Chosen by hand; searches that differ in them alone were not compared. */
enum {
    PER_ROUND = 6, /* proposals that are asked for at once */
    MIGRATION = 3, /* rounds from one exchange between islands to the next */
    FINALISTS = 6, /* candidates that are verified in full when the time is over, fastest first, until one is right */
    REMEASURED = 3 /* times that the fastest and the baselines are timed again, in turn, of which the median counts */
};

typedef struct {
    Search s;
    SearchResult *result;
    double start;
    double pace;             /* seconds that one round took at most */
    double end;              /* of all */
    double deadline;         /* of candidates: what is still being judged then is left, and the rest is for the last verification */
    char reached[192];       /* how far the first sketch has come, where it is not verified */
    ProposerCandidate shown; /* the same, as whoever is asked sees it; its sketch null: there is none */
    char shown_outcome[256];
    size_t standard; /* the candidate that the compiler makes by itself; SIZE_MAX: none */
    Str own;         /* that one's file where nothing has said that it is wrong */
} Loop;

/* Seconds that the search may take. */
double search_time_limit(const SearchOptions *o);
/* Has the caller asked it to end? */
bool search_cancelled(const Loop *l);
/* What is of use and no need is left out then. */
bool search_is_late(const Loop *l);
/* A copy of the text, of the heap. */
char *search_copy(const char *text, size_t size);
/* SIZE_MAX: it does not parse, or was there before. */
size_t search_add(Loop *l, const char *sketch, const char *source, size_t parent, unsigned arm, unsigned island);
/* What a proposer is asked for, with `parent` (null: nothing) to begin from. */
ProposerRequest search_request_of(const Loop *l, const ProposerCandidate *parent, unsigned attempt);
/* Adds what a proposer answered; SIZE_MAX: nothing. */
size_t search_take_reply(Loop *l, const Proposer *from, const ProposerRequest *r, const ProposerReply *reply, const char *source,
                         size_t parent, unsigned arm, unsigned island);
/* Asks a proposer, and adds what it answers. */
size_t search_ask(Loop *l, Proposer *from, const ProposerRequest *r, const char *source, size_t parent, unsigned arm, unsigned island);
/* What came of one candidate: into the store, and to the arm that made it. */
void search_account(Loop *l, Candidate *c);
/* Notes the run in the store. */
void search_begin_run(Loop *l);
/* Tells the caller how far the search is. */
void search_report(Loop *l, bool done);
/* Judges the candidates from number `from` on. */
void search_judge_new(Loop *l, size_t from);
/* Reads the operator; false: it has errors. */
bool search_take_operator(Loop *l);
/* The compiler's own sketch is what there is without a search, so that it is an answer, though none that was verified. */
void search_say_too_late(Loop *l);
/* The first candidates: the standard sketch and what rules make; false: there is nothing to begin from. */
bool search_take_start(Loop *l, Proposer *rules);
/* Adds the compiler's other designs. */
void search_take_designs(Loop *l, Proposer *rules);

#endif
