/* The language server: a script of edits and requests on an open document, five bytes each, in well-formed messages. */
#include "lsp.h"
#include "support.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count(void *context, const char *bytes, size_t size) {
    if (size < 20 || strncmp(bytes, "Content-Length: ", 16) != 0) abort();
    *(size_t *)context += size;
}

static void send(LspServer *s, const char *body) {
    Str frame;
    str_init(&frame);
    str_printf(&frame, "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
    if (!lsp_receive(s, frame.data, frame.len)) abort();
    str_release(&frame);
    while (lsp_step(s)) {
    }
}

static void begin(LspServer *s) {
    send(s, "{\"id\":1,\"method\":\"initialize\",\"params\":{}}");
    send(s, "{\"method\":\"textDocument/didOpen\",\"params\":{\"textDocument\":{\"uri\":\"u\",\"version\":1,\"text\":"
            "\"sketch s {\\n    symbols: M;\\n    tensors: X[M]: f32; Y[M]: f32;\\n    for i in range(ceil(M, 8)):\\n"
            "        x = alloc([8])\\n        load(X[i*8:(i+1)*8] -> x)\\n        store(x -> Y[i*8:(i+1)*8])\\n}\\n\"}}}");
}

static void edit(LspServer *s, const uint8_t *bytes) {
    static const char *const pieces[] = {"\\n",
                                         " ",
                                         "x",
                                         "(",
                                         ")",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         "\\\"",
                                         "#\\u00fc",
                                         ":",
                                         "->",
                                         "exp(",
                                         "for i in range(3):\\n    ",
                                         "@llm_hint(",
                                         "tensors: Z[M]: f32;",
                                         "\\ud834\\udd1e"};
    Str body;
    str_init(&body);
    str_printf(&body,
               "{\"method\":\"textDocument/didChange\",\"params\":{\"textDocument\":{\"uri\":\"u\",\"version\":2},\"contentChanges\":"
               "[{\"range\":{\"start\":{\"line\":%d,\"character\":%d},\"end\":{\"line\":%d,\"character\":%d}},\"text\":\"%s\"}]}}",
               bytes[0] % 12, bytes[1] % 40, bytes[0] % 12 + bytes[2] % 2, bytes[1] % 40 + bytes[2] % 5,
               pieces[bytes[3] % COUNT_OF(pieces)]);
    send(s, body.data);
    str_release(&body);
}

static void ask(LspServer *s, const uint8_t *bytes) {
    static const char *const methods[] = {"hover",
                                          "completion",
                                          "signatureHelp",
                                          "definition",
                                          "references",
                                          "rename",
                                          "prepareRename",
                                          "documentSymbol",
                                          "foldingRange",
                                          "semanticTokens/full",
                                          "formatting",
                                          "inlayHint",
                                          "codeAction",
                                          "documentHighlight",
                                          "implementation",
                                          "selectionRange",
                                          "semanticTokens/full/delta",
                                          "semanticTokens/range"};
    Str body;
    str_init(&body);
    str_printf(&body,
               "{\"id\":%d,\"method\":\"textDocument/%s\",\"params\":{\"textDocument\":{\"uri\":\"u\"},\"newName\":\"q\",\"position\":"
               "{\"line\":%d,\"character\":%d},\"positions\":[{\"line\":%d,\"character\":%d}],\"previousResultId\":\"1\","
               "\"range\":{\"start\":{\"line\":0,\"character\":0},\"end\":{\"line\":99,\"character\":0}}}}",
               bytes[3], methods[bytes[2] % COUNT_OF(methods)], bytes[0] % 12, bytes[1] % 40, bytes[0] % 12, bytes[1] % 40);
    send(s, body.data);
    str_release(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t written = 0;
    LspServer *s = lsp_create(count, &written);
    if (!s) abort();
    begin(s);
    for (; size >= 5; data += 5, size -= 5) (data[4] % 3 ? edit : ask)(s, data);
    if (!written) abort();
    lsp_destroy(s);
    return 0;
}
