/* What a command starts and makes goes with it: compilers, workers, temporary files. */
#ifndef TOOLS_SUPERVISE_H
#define TOOLS_SUPERVISE_H

/* To be called first of all. Standard streams that are closed are opened so that nothing else gets their numbers (using them
 * fails as before); a file that may not grow is an error of its writer and no signal. */
void supervise_prepare(void);

/* Goes on in a child process, whose temporary files are in a folder of its own. The caller stays behind until the child ends
 * and returns never: on SIGINT, SIGTERM and SIGHUP it ends the child with all that this started and exits with status 130, else
 * with the child's status; the folder is removed either way. Signals that are ignored stay so. Where no process or folder can
 * be made it returns as if it were the child. */
void supervise_from_here(void);

#endif
