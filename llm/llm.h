/* llm: proposers that ask someone else: a model behind an OpenAI-compatible endpoint, a program, or a
 * recording of either. What they answer is text; see proposer.h for how little it is trusted.
 *
 * Nothing here prints or reads the environment beyond support/environment.def. The key is held in one
 * place (key.c), goes into one header of the requests to the endpoint, and is taken out of whatever
 * comes back before anyone else sees it. */
#ifndef LLM_LLM_H
#define LLM_LLM_H

#include "proposer.h"
#include "retrieve.h"

/* ---- Settings: flags over environment over project file over user file ---- */

typedef enum {
    LLM_SETTING_NONE = -1,
#define SETTING(id, name, otherwise, trust, environment, summary) LLM_##id,
#include "settings.def"
#undef SETTING
    LLM_SETTING_COUNT
} LlmSetting;

typedef enum { /* from the weakest to the strongest */
               LLM_FROM_DEFAULT,
               LLM_FROM_PRESET,
               LLM_FROM_USER,
               LLM_FROM_PROJECT,
               LLM_FROM_ENVIRONMENT,
               LLM_FROM_FLAG
} LlmOrigin;

typedef struct LlmConfig LlmConfig;

LlmConfig *llm_config_create(void); /* defaults only */
void llm_config_destroy(LlmConfig *config);
/* Sets by name; `where` is a file for messages, may be null. A weaker origin never replaces a
 * stronger one. False with a message in `error` (appended) when there is no such setting, the value does not
 * fit, or LLM_FROM_PROJECT may not set it; the message holds no value. */
bool llm_config_set(LlmConfig *config, const char *name, const char *value, LlmOrigin origin, const char *where, Str *error);
/* Reads `name = value` lines, # comments. All mistakes are reported, a line each. */
bool llm_config_read(LlmConfig *config, const char *text, LlmOrigin origin, const char *where, Str *error);
/* The user's file ($XDG_CONFIG_HOME or ~/.config, sketchc/config), sketchc.conf in `project` (null: none)
 * and the environment. `trust`: the project may set everything. False when one of them has a mistake; what could
 * be read counts nevertheless. */
bool llm_config_load(LlmConfig *config, const char *project, bool trust, Str *error);
/* To be called after everything is set: fills what follows from the preset. */
void llm_config_finish(LlmConfig *config);
const char *llm_config_get(const LlmConfig *config, LlmSetting setting); /* "" where not set */
double llm_config_number(const LlmConfig *config, LlmSetting setting, double otherwise);
/* A line a setting, with --show-origin where it comes from. Never the key: there is no setting for it. */
void llm_config_show(const LlmConfig *config, bool origin, Str *out);
void llm_settings_reference(Str *out); /* a Markdown table */

/* ---- Proposers ---- */

typedef struct {
    unsigned calls, tries, replayed, failures;
    unsigned equal_prompts; /* requests whose prompt, attempt included, had been sent before */
    unsigned other_prompts; /* replayed answers that were recorded for another prompt (cassette_match = order) */
    int64_t tokens_in, tokens_out, tokens_cached;
    double cost; /* negative: not known */
    double seconds;
} LlmTotals;

/* The proposer that the settings name (model, command, a cassette around one), ready to be asked; null
 * with a message. `design` is not one of them. The config must live as long. The caller destroys it. */
Proposer *llm_proposer_create(const LlmConfig *config, Str *error);
/* Is anyone but the compiler's own rules to be asked? */
bool llm_wanted(const LlmConfig *config);
void llm_totals(const Proposer *proposer, LlmTotals *totals); /* of one from llm_proposer_create */

/* Vectors by the settings' embedding_model, asked for under the proposer's limits and kept in its cassette; those that the store knows are not
 * asked for. False: there is no such model, and the built-in embedding serves. */
typedef struct LlmEmbedding {
    Proposer *proposer;
    Store *store; /* may be null */
    const atomic_int *cancel;
    Str error;       /* why vectors could not be had; initialised and released by the caller, like the next */
    Str undescribed; /* why words could not be had */
} LlmEmbedding;
bool llm_embedder(LlmEmbedding *embedding, Embedder *embedder);

/* Operators in words, by the one who is asked for sketches, where the setting `describe` says so; under the same limits, some a run, kept in the
 * store until there are words for all. */
bool llm_describer(LlmEmbedding *embedding, Describer *describer);

/* ---- Prompts ---- */

/* The prompt of a request in its two parts. `fixed` is a function of target and arch alone, so equal bytes
 * begin every prompt of a search; `task` is the rest, and as many bytes of it as are returned are the documents that were
 * chosen. `why`, unless null, gets a line a document: chosen or not, its
 * size, the reason. All initialised by the caller, appended to. */
size_t llm_prompt(const ProposerRequest *request, Str *fixed, Str *task, Str *why);
/* Tokens of a text, estimated: what budgets of prompts are measured by. */
size_t llm_estimate_tokens(size_t bytes);

#endif
