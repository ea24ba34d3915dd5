/* The proposer over whoever is asked: prompt, question, the sketch in the answer, sums. */
#include "llm_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Proposer base;
    Arena *arena;
    const LlmConfig *config;
    LlmBackend *backend;
    LlmBudget budget;
    LlmTotals totals;
    Map *sent; /* hashes of prompts */
} Asker;

typedef struct {
    Str fixed, task;
} Texts;

static Hash128 subject_of(const ProposerRequest *r) {
    const char *arch = r->arch ? r->arch : "";
    Hash128 machine = hash128(arch, strlen(arch), hash128(r->target, strlen(r->target), (Hash128){0, 0}));
    return hash128(r->operator_text, strlen(r->operator_text), machine);
}

static void make_prompt(const Asker *a, const ProposerRequest *request, Texts *texts,
                        LlmPrompt *prompt) {
    ProposerRequest sized = *request;
    if (!sized.token_budget)
        sized.token_budget = (size_t)llm_config_number(a->config, LLM_PROMPT_TOKENS, 12000);
    str_init(&texts->fixed);
    str_init(&texts->task);
    size_t documents = llm_prompt(&sized, &texts->fixed, &texts->task, NULL);
    llm_clean_text(&texts->fixed);
    llm_clean_text(&texts->task);
    *prompt = (LlmPrompt){.fixed = texts->fixed.data,
                          .task = texts->task.data,
                          .fixed_size = texts->fixed.len,
                          .task_size = texts->task.len,
                          .documents_size = documents,
                          .subject = subject_of(request),
                          .seed = request->seed,
                          .attempt = request->attempt,
                          .time_limit_s = request->time_limit_s,
                          .cancel = request->cancel};
}

static void note_sent(Asker *a, const LlmPrompt *p) {
    char hex[33];
    Hash128 seed = {p->attempt, p->fixed_size};
    hash128_hex(hash128(p->task, p->task_size, seed), hex);
    if (map_get(a->sent, hex))
        a->totals.equal_prompts++;
    else
        map_set(a->sent, a->arena, hex, a);
}

static void add(int64_t *sum, int64_t n) {
    if (n > 0) *sum += n;
}

static void read_reply(Asker *a, bool shorten, ProposerReply *r) {
    LlmTotals *t = &a->totals;
    bool begun, answered = r->status == PROPOSED || r->status == PROPOSED_TRUNCATED;
    bool found = answered && !shorten && proposer_extract_sketch(r->raw.data, r->raw.len, &r->sketch, &begun);
    if (r->status == PROPOSED && !found && !shorten) {
        r->status = begun ? PROPOSED_TRUNCATED : PROPOSED_NOTHING;
        str_append(&r->error,
                   begun ? "the sketch block is not closed" : "the answer holds no sketch block");
    }
    t->calls++;
    t->tries += r->tries;
    t->replayed += r->replayed;
    t->other_prompts += r->other_prompt;
    t->failures += !answered;
    add(&t->tokens_in, r->tokens_in);
    add(&t->tokens_out, r->tokens_out);
    add(&t->tokens_cached, r->tokens_cached);
    t->seconds += r->seconds;
    if (r->cost >= 0) t->cost = (t->cost < 0 ? 0 : t->cost) + r->cost;
}

static void propose(Proposer *self, const ProposerRequest *requests, size_t count,
                    ProposerReply *replies) {
    Asker *a = (Asker *)self;
    Texts *texts = calloc(count + 1, sizeof *texts);
    LlmPrompt *prompts = calloc(count + 1, sizeof *prompts);
    if (texts && prompts) {
        for (size_t i = 0; i < count; i++) {
            make_prompt(a, &requests[i], &texts[i], &prompts[i]);
            note_sent(a, &prompts[i]);
        }
        a->backend->ask(a->backend, prompts, count, replies);
        for (size_t i = 0; i < count; i++) {
            read_reply(a, requests[i].task == PROPOSE_SHORTEN, &replies[i]);
            str_release(&texts[i].fixed);
            str_release(&texts[i].task);
        }
    }
    free(texts);
    free(prompts);
}

static void destroy(Proposer *self) {
    Asker *a = (Asker *)self;
    if (a->backend) a->backend->destroy(a->backend);
    arena_destroy(a->arena);
}

static LlmBackend *open_backend(Asker *a, Str *error) {
    const LlmConfig *config = a->config;
    const char *who = llm_config_get(config, LLM_PROPOSER),
               *path = llm_config_get(config, LLM_CASSETTE),
               *match = llm_config_get(config, LLM_CASSETTE_MATCH);
    const char *mode = llm_config_get(config, LLM_CASSETTE_MODE);
    LlmBackend *inner = NULL;
    if (strcmp(match, "order") == 0 && (!path[0] || strcmp(mode, "replay") != 0)) {
        str_append(error, "--cassette-match=order is for --cassette-mode=replay: what is asked anew "
                          "is matched by its prompt");
        return NULL;
    }
    if (path[0] && strcmp(mode, "replay") == 0) return backend_cassette(path, mode, match, NULL, error);
    if (strncmp(who, "command:", 8) == 0)
        inner = backend_command(config, &a->budget, who + 8, error);
    else if (strcmp(who, "model") == 0)
        inner = backend_model(config, &a->budget, error);
    else
        str_append(error, "no proposer of this kind is asked");
    return inner && path[0] ? backend_cassette(path, mode, match, inner, error) : inner;
}

Proposer *llm_proposer_create(const LlmConfig *config, Str *error) {
    Arena *arena = arena_create();
    if (!arena) {
        str_append(error, "out of memory");
        return NULL;
    }
    Asker *a = ARENA_NEW(arena, Asker);
    *a = (Asker){
        .arena = arena, .config = config, .sent = map_create(arena), .totals = {.cost = -1}};
    if (budget_init(&a->budget, config, error)) a->backend = open_backend(a, error);
    if (!a->backend) {
        arena_destroy(arena);
        return NULL;
    }
    a->base =
        (Proposer){a->backend->name, a->backend->detail, a->backend->parallel, propose, destroy};
    return &a->base;
}

void llm_totals(const Proposer *proposer, LlmTotals *totals) {
    *totals = ((const Asker *)proposer)->totals;
}
