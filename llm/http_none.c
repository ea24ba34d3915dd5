/* A build without libcurl: programs and recordings still answer. */
#include "llm_internal.h"

HttpClient *http_create(Str *error) {
    str_append(error, "this sketchc was built without libcurl; --proposer=command:PROGRAM needs none");
    return NULL;
}
void http_destroy(HttpClient *client) {
    (void)client;
}
bool http_start(HttpClient *client, HttpCall *call) {
    (void)client, (void)call;
    return false;
}
HttpCall *http_wait(HttpClient *client, double seconds) {
    (void)client, (void)seconds;
    return NULL;
}
void http_stop(HttpClient *client, HttpCall *call) {
    (void)client, (void)call;
}
