/* --proposer=command:PROGRAM: the prompt on standard input, the answer from standard output. */
#include "llm_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    LlmBackend base;
    Arena *arena;
    const LlmConfig *config;
    LlmBudget *budget;
    const char *const *argv;
} Command;

/* One call of `ask`: its threads take the next request each. */
typedef struct {
    Command *command;
    const LlmPrompt *prompts;
    ProposerReply *replies;
    size_t count;
    atomic_size_t next;
    pthread_mutex_t lock; /* of the budget */
} Batch;

static void read_result(const SubprocessResult *r, ProposerReply *reply) {
    reply->status = PROPOSER_FAILED;
    if (r->cancelled)
        reply->status = PROPOSER_CANCELLED;
    else if (r->timed_out)
        str_append(&reply->error, "the program did not answer in time");
    else if (!r->exited || r->exit_status)
        str_printf(&reply->error, "the program ended with %s %d: %.*s", r->exited ? "status" : "signal",
                   r->exited ? r->exit_status : r->signal, (int)(strcspn(r->err.data, "\n") % 200), r->err.data);
    else
        reply->status = r->out.len >= REPLY_LIMIT ? PROPOSED_TRUNCATED : PROPOSED;
    if (reply->status == PROPOSED_TRUNCATED) str_append(&reply->error, "the answer is longer than 2 MiB");
    if (reply->status == PROPOSED || reply->status == PROPOSED_TRUNCATED) str_append_n(&reply->raw, r->out.data, r->out.len);
    llm_clean_text(&reply->raw);
    llm_clean_text(&reply->error);
}

static void run(Command *c, const LlmPrompt *prompt, ProposerReply *reply) {
    Str input;
    str_init(&input);
    str_append_n(&input, prompt->fixed, prompt->fixed_size);
    str_append_char(&input, '\n');
    str_append_n(&input, prompt->task, prompt->task_size);
    double limit = llm_config_number(c->config, LLM_TIMEOUT, 300);
    if (prompt->time_limit_s > 0 && prompt->time_limit_s < limit) limit = prompt->time_limit_s;
    if (prompt->deadline > 0 && prompt->deadline - seconds_now() < limit) limit = prompt->deadline - seconds_now();
    SubprocessSpec spec = {.argv = c->argv,
                           .input = input.data,
                           .input_size = input.len,
                           .timeout_s = limit,
                           .output_limit = REPLY_LIMIT,
                           .cancel = prompt->cancel};
    SubprocessResult result;
    if (subprocess_run(&spec, &result)) {
        read_result(&result, reply);
    } else {
        reply->status = PROPOSER_REJECTED;
        str_printf(&reply->error, "%s cannot be started: %s", c->argv[0], strerror(errno));
    }
    subprocess_release(&result);
    str_release(&input);
}

static void answer(Batch *b, size_t i) {
    const LlmPrompt *prompt = &b->prompts[i];
    ProposerReply *reply = &b->replies[i];
    if (prompt->deadline > 0 && seconds_now() >= prompt->deadline) {
        reply->status = PROPOSER_CANCELLED;
        return;
    }
    double begin = llm_now(), most = llm_config_number(b->command->config, LLM_ANSWER_TOKENS, 8192);
    size_t size = prompt->fixed_size + prompt->task_size;
    pthread_mutex_lock(&b->lock);
    bool allowed = budget_reserve(b->command->budget, size, most, &reply->error);
    pthread_mutex_unlock(&b->lock);
    if (!allowed) {
        reply->status = PROPOSER_BUDGET;
        return;
    }
    reply->tries = 1;
    run(b->command, prompt, reply);
    reply->seconds = llm_now() - begin;
    pthread_mutex_lock(&b->lock);
    budget_settle(b->command->budget, size, most, reply->raw.len, reply);
    pthread_mutex_unlock(&b->lock);
}

static void *work(void *context) {
    Batch *b = context;
    for (size_t i; (i = atomic_fetch_add(&b->next, 1)) < b->count;) answer(b, i);
    return NULL;
}

static void ask(LlmBackend *self, const LlmPrompt *prompts, size_t count, ProposerReply *replies) {
    Batch b = {.command = (Command *)self, .prompts = prompts, .replies = replies, .count = count};
    pthread_t threads[64];
    size_t started = 0, wanted = count < self->parallel ? count : self->parallel;
    pthread_mutex_init(&b.lock, NULL);
    while (started + 1 < wanted && started < COUNT_OF(threads) && pthread_create(&threads[started], NULL, work, &b) == 0) started++;
    work(&b);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&b.lock);
}

static void destroy(LlmBackend *self) {
    Command *c = (Command *)self;
    arena_destroy(c->arena);
    free(c);
}

LlmBackend *backend_command(const LlmConfig *config, LlmBudget *budget, const char *command, Str *error) {
    Command *c = calloc(1, sizeof *c);
    if (!c) {
        str_append(error, "out of memory");
        return NULL;
    }
    Arena *arena = arena_create();
    *c = (Command){.base = {"command", "", (unsigned)llm_config_number(config, LLM_PARALLEL, 4), ask, destroy},
                   .arena = arena,
                   .config = config,
                   .budget = budget,
                   .argv = split_words(arena, command)};
    snprintf(c->base.detail, sizeof c->base.detail, "%.180s", command);
    if (c->argv[0]) return &c->base;
    str_append(error, "command: names no program");
    destroy(&c->base);
    return NULL;
}
