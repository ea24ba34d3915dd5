/* The sketch in an answer; statuses have names. */
#include "proposer.h"

#include "check.h"

static Str block;

static bool extract(const char *text, bool *begun) {
    return proposer_extract_sketch(text, strlen(text), &block, begun);
}

static void finds_blocks(void) {
    CHECK(extract("Here it is:\n```sketch\nsketch a implements b {\n  x\n}\n```\nDone.", NULL));
    CHECK_STR(block.data, "sketch a implements b {\n  x\n}\n");
    CHECK(extract("  sketch {}", NULL));
    CHECK_STR(block.data, "sketch {}\n");
    CHECK(extract("sketch a implements b(eps=1e-5, N=2*M)\n{ }", NULL));
    CHECK(extract("sketch a { # }\n s = \"}\" '}' {} }", NULL));
    CHECK_STR(block.data, "sketch a { # }\n s = \"}\" '}' {} }\n");
}

static void takes_the_last(void) {
    CHECK(extract("sketch one { }\nno, better:\nsketch two { }\n", NULL));
    CHECK_STR(block.data, "sketch two { }\n");
    bool begun;
    CHECK(extract("sketch one { }\nsketch two { ", &begun));
    CHECK_STR(block.data, "sketch one { }\n");
    CHECK(begun);
}

static void leaves_other_text(void) {
    bool begun = true;
    CHECK(extract("operator b { Y = 0 }\nsketch a implements b { x }\noperator b { }", NULL));
    CHECK_STR(block.data, "sketch a implements b { x }\n");
    CHECK(!extract("The sketch below: {x}\nsketches { }\nasketch { }", &begun));
    CHECK(!begun);
    CHECK_STR(block.data, "");
    CHECK(!extract("", &begun) && !begun);
    CHECK(!extract("sketch a { {}", &begun) && begun);
    CHECK(!extract("sketch a { \"\\", &begun) && begun);
    CHECK(!proposer_extract_sketch("sketch\0{}", 9, &block, &begun));
}

static void finds_operators(void) {
    static const char text[] = "edition 1\n# operator no {\noperator yes { case a { N=1 } }\nsketch s implements yes { }\n";
    Str found, name;
    str_init(&found);
    str_init(&name);
    CHECK(proposer_extract_operator(text, sizeof text - 1, &found, &name));
    CHECK_STR(found.data, "operator yes { case a { N=1 } }\n");
    CHECK_STR(name.data, "yes");
    CHECK(!proposer_extract_operator("sketch s { }", 12, &found, &name));
    str_release(&found);
    str_release(&name);
}

static void is_linear(void) {
    Str text;
    str_init(&text);
    while (text.len < 2 << 20) str_append(&text, "sketch {\n");
    bool begun;
    CHECK(!proposer_extract_sketch(text.data, text.len, &block, &begun) && begun);
    str_release(&text);
}

static void names(void) {
    for (unsigned i = 0; i < PROPOSER_STATUS_COUNT; i++) CHECK(proposer_status_name((ProposerStatus)i)[0]);
    CHECK(proposer_status_is_final(PROPOSER_BUDGET) && !proposer_status_is_final(PROPOSER_FAILED));
    ProposerReply reply;
    proposer_reply_init(&reply);
    CHECK(reply.tokens_in == -1 && reply.cost < 0 && !reply.raw.len);
    proposer_reply_release(&reply);
}

int main(void) {
    str_init(&block);
    finds_blocks();
    takes_the_last();
    leaves_other_text();
    finds_operators();
    is_linear();
    names();
    str_release(&block);
    return 0;
}
