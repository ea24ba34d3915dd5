/* The language server: the stream of frames as it comes, in two parts. The first byte says where it is cut. */
#include "lsp.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(void *context, const char *bytes, size_t size) {
    (void)context;
    if (size < 20 || strncmp(bytes, "Content-Length: ", 16) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    const char *stream = (const char *)data + 1;
    size_t rest = size - 1, cut = rest * data[0] / 255;
    LspServer *s = lsp_create(check, NULL);
    if (!s) abort();
    if (lsp_receive(s, stream, cut)) (void)lsp_receive(s, stream + cut, rest - cut);
    while (lsp_step(s)) {
    }
    lsp_destroy(s);
    return 0;
}
