/* The language server: JSON-RPC 2.0 in the Language Server Protocol's frames. One front end: what it
 * reports, shows and formats is what the compiler's own parser and checker say. */
#ifndef TOOLS_LSP_H
#define TOOLS_LSP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct LspServer LspServer;

/* Takes the bytes of whole frames that the server sends. */
typedef void (*LspWrite)(void *context, const char *bytes, size_t size);

/* `write` is called from within the calls below. Null when out of memory. */
LspServer *lsp_create(LspWrite write, void *context);
void lsp_destroy(LspServer *server);

/* Takes received bytes, in pieces of any size; complete messages are queued. False when the stream is
 * no sequence of frames: nothing more can be read from it. */
bool lsp_receive(LspServer *server, const char *bytes, size_t size);
/* Works on one queued message, or publishes the diagnostics of one changed document when none is queued. False
 * when there was nothing to do. A queued `$/cancelRequest` has its effect before the request it names
 * is begun. */
bool lsp_step(LspServer *server);
/* Lets the server compile what is open in a process of its own. Its results arrive on the file descriptor, -1 for
 * none, to be read when there is something to read. */
void lsp_set_background(LspServer *server);
/* Whether something waits to be compiled; and its start, for a moment in which the client is silent. */
bool lsp_background_waits(const LspServer *server);
void lsp_background_start(LspServer *server);
int lsp_background_fd(const LspServer *server);
void lsp_background_read(LspServer *server);
/* Whether `exit` was received, and the exit status that the protocol asks for. */
bool lsp_has_ended(const LspServer *server, int *status);

/* Serves file descriptors until `exit` or the end of input; returns the exit status. */
int lsp_serve(int in, int out);

#endif
