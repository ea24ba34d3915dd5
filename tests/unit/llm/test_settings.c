/* Precedence, what a project may set, keys and where they come from. */
#include "llm_internal.h"

#include "check.h"

#include <sys/stat.h>
#include <unistd.h>

static Str error;

static bool set(LlmConfig *c, const char *name, const char *value, LlmOrigin origin) {
    str_release(&error);
    str_init(&error);
    return llm_config_set(c, name, value, origin, "here", &error);
}

static void precedence(void) {
    LlmConfig *c = llm_config_create();
    CHECK(set(c, "model", "flag", LLM_FROM_FLAG) && set(c, "model", "user", LLM_FROM_USER));
    CHECK_STR(llm_config_get(c, LLM_MODEL), "flag");
    CHECK(set(c, "parallel", "2", LLM_FROM_USER) && set(c, "parallel", "3", LLM_FROM_PROJECT));
    CHECK(llm_config_number(c, LLM_PARALLEL, 0) == 3);
    CHECK(!set(c, "modle", "x", LLM_FROM_FLAG) && strstr(error.data, "did you mean model?"));
    CHECK(!set(c, "parallel", "0", LLM_FROM_FLAG) && !set(c, "parallel", "1e400", LLM_FROM_FLAG));
    CHECK(!set(c, "preset", "x", LLM_FROM_FLAG) && !set(c, "model", "a\nb", LLM_FROM_FLAG));
    CHECK(set(c, "endpoint", "http://u/v1", LLM_FROM_USER) && set(c, "preset", "vllm", LLM_FROM_FLAG));
    llm_config_finish(c);
    CHECK_STR(llm_config_get(c, LLM_ENDPOINT), "http://localhost:8000/v1");
    CHECK_STR(llm_config_get(c, LLM_PROPOSER), "model");
    llm_config_destroy(c);
}

static void projects(void) {
    static const char *const never[] = {"endpoint",         "key_file",        "key_command",        "proposer",
                                        "preset",           "cassette",        "price_in",           "allow_plain_http",
                                        "trusted_projects", "embedding_model", "embedding_endpoint", "embedding_key_file",
                                        "price_embedding"};
    static const char *const values[] = {"http://evil/v1", "/k", "cat /k", "command:sh",     "openai", "/tmp/x", "0",
                                         "true",           "/",  "m",      "http://evil/v1", "/k",     "0"};
    LlmConfig *c = llm_config_create();
    for (size_t i = 0; i < COUNT_OF(never); i++) CHECK(!set(c, never[i], values[i], LLM_FROM_PROJECT) && strstr(error.data, never[i]));
    CHECK(set(c, "max_calls", "10", LLM_FROM_USER) && !set(c, "max_calls", "11", LLM_FROM_PROJECT));
    CHECK(set(c, "max_calls", "9", LLM_FROM_PROJECT) && llm_config_number(c, LLM_MAX_CALLS, 0) == 9);
    CHECK(!set(c, "max_calls", "", LLM_FROM_PROJECT));
    str_release(&error);
    str_init(&error);
    CHECK(!llm_config_read(c, "# hi\nmodel = m\nnonsense\nendpoint = x\n", LLM_FROM_PROJECT, "f", &error));
    CHECK(strstr(error.data, "f:3: ") && strstr(error.data, "f:4: ") && !strstr(error.data, "f:2"));
    CHECK_STR(llm_config_get(c, LLM_MODEL), "m");
    llm_config_destroy(c);
}

static bool file_key(const char *path, LlmKey *key) {
    LlmConfig *c = llm_config_create();
    CHECK(set(c, "key_file", path, LLM_FROM_FLAG));
    bool ok = key_find(c, key, &error);
    CHECK(!strstr(error.data, "secret"));
    llm_config_destroy(c);
    return ok;
}

static void keys(void) {
    char path[] = "/tmp/keyXXXXXX";
    LlmKey key;
    int fd = mkstemp(path);
    unsetenv("SKETCHC_API_KEY");
    CHECK(write(fd, "secret-1\n", 9) == 9 && chmod(path, 0600) == 0);
    CHECK(file_key(path, &key));
    CHECK_STR(key.text, "secret-1");
    CHECK(chmod(path, 0640) == 0 && !file_key(path, &key) && !key.text[0]);
    CHECK(chmod(path, 0600) == 0 && ftruncate(fd, 0) == 0 && pwrite(fd, "secret \x01", 8, 0) == 8 && !file_key(path, &key));
    close(fd);
    unlink(path);
    CHECK(!file_key(path, &key));

    LlmConfig *c = llm_config_create();
    CHECK(set(c, "key_command", "echo secret-2", LLM_FROM_FLAG) && key_find(c, &key, &error));
    CHECK_STR(key.text, "secret-2");
    CHECK(set(c, "key_command", "false", LLM_FROM_FLAG) && !key_find(c, &key, &error));
    setenv("SKETCHC_API_KEY", "secret-3", 1);
    CHECK(key_find(c, &key, &error));
    CHECK_STR(key.text, "secret-3");
    unsetenv("SKETCHC_API_KEY");
    /* OpenAI's own key goes to OpenAI alone. */
    setenv("OPENAI_API_KEY", "secret-4", 1);
    CHECK(set(c, "key_command", "", LLM_FROM_FLAG) && set(c, "endpoint", "https://api.openai.com.evil/v1", LLM_FROM_FLAG));
    CHECK(key_find(c, &key, &error) && !key.text[0]);
    CHECK(set(c, "endpoint", "https://api.openai.com/v1", LLM_FROM_FLAG) && key_find(c, &key, &error));
    CHECK_STR(key.text, "secret-4");

    Str text;
    str_init(&text);
    str_append(&text, "a secret-4secret-4 b");
    key_redact(&key, &text);
    CHECK_STR(text.data, "a [key][key] b");
    str_release(&text);
    llm_config_destroy(c);
}

static LlmBackend *model(const char *endpoint, const char *plain) {
    static LlmBudget budget;
    LlmConfig *c = llm_config_create();
    CHECK(set(c, "endpoint", endpoint, LLM_FROM_FLAG) && set(c, "model", "m", LLM_FROM_FLAG));
    CHECK(set(c, "allow_plain_http", plain, LLM_FROM_FLAG));
    str_release(&error);
    str_init(&error);
    LlmBackend *b = backend_model(c, &budget, &error);
    if (b) b->destroy(b);
    llm_config_destroy(c);
    return b;
}

static void endpoints(void) {
    static const char *const wrong[] = {"ftp://x/v1", "file:///etc/passwd", "http://user@host/v1", "http://",
                                        "x",          "http://h/v1?a=b",    "http://h/#x"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) CHECK(!model(wrong[i], "true") && strstr(error.data, "the endpoint must be"));
    setenv("SKETCHC_API_KEY", "secret-5", 1);
    static const char *const readable[] = {"http://example.com/v1", "http://localhost.example.com/v1", "http://127.0.0.1.example.com/v1",
                                           "http://10.0.0.1:80/v1"};
    for (size_t i = 0; i < COUNT_OF(readable); i++)
        CHECK(!model(readable[i], "false") && strstr(error.data, "readable for all") && !strstr(error.data, "secret-5"));
    CHECK(model("http://localhost:1/v1", "false") || strstr(error.data, "libcurl"));
    CHECK(model("http://127.0.0.1/v1", "false") || strstr(error.data, "libcurl"));
    CHECK(model("http://[::1]:8080/v1", "false") || strstr(error.data, "libcurl"));
    CHECK(model("https://example.com/v1", "false") || strstr(error.data, "libcurl"));
    unsetenv("SKETCHC_API_KEY");
}

int main(void) {
    str_init(&error);
    precedence();
    projects();
    keys();
    endpoints();
    str_release(&error);
    return 0;
}
