/* PTX of the kernels that only move memory, in 16-byte words, 256 threads a block. */
#ifndef RUNTIME_STREAM_KERNELS_H
#define RUNTIME_STREAM_KERNELS_H

/* All take (to, from, words). A word a thread, four for reading, whose exclusive or is stored where
 * it cannot be, so that the loads stay. */
static const char stream_ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
#define STREAM_HEAD(name, words)                                                                                                           \
    ".visible .entry " name "(.param .u64 to, .param .u64 from, .param .u64 count) {\n"                                                    \
    ".reg .pred %p<3>;\n.reg .b32 %r<24>;\n.reg .b64 %rd<12>;\n"                                                                           \
    "ld.param.u64 %rd1, [to];\nld.param.u64 %rd2, [from];\nld.param.u64 %rd3, [count];\n"                                                  \
    "cvta.to.global.u64 %rd1, %rd1;\ncvta.to.global.u64 %rd2, %rd2;\n"                                                                     \
    "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\nmul.wide.u32 %rd4, %r1, " words ";\n"                                                   \
    "cvt.u64.u32 %rd5, %r2;\nadd.u64 %rd4, %rd4, %rd5;\n"                                                                                  \
    "setp.ge.u64 %p1, %rd4, %rd3;\n@%p1 bra DONE;\n"                                                                                       \
    "shl.b64 %rd6, %rd4, 4;\nadd.u64 %rd7, %rd1, %rd6;\nadd.u64 %rd8, %rd2, %rd6;\n"
    STREAM_HEAD("sketchc_copy", "256") "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd8];\n"
                                       "st.global.v4.u32 [%rd7], {%r4, %r5, %r6, %r7};\nDONE:\nret;\n}\n" STREAM_HEAD(
                                           "sketchc_fill", "256") "mov.u32 %r4, 0;\nst.global.v4.u32 [%rd7], {%r4, %r4, %r4, "
                                                                  "%r4};\nDONE:\nret;\n}\n" STREAM_HEAD(
                                                                      "sketchc_read", "1024") "ld.global.v4.u32 {%r4, "
                                                                                              "%r5, %r6, %r7}, [%rd8];\n"
                                                                                              "ld.global.v4.u32 {%r8, "
                                                                                              "%r9, %r10, %r11}, "
                                                                                              "[%rd8+4096];\n"
                                                                                              "ld.global.v4.u32 {%r12, "
                                                                                              "%r13, %r14, %r15}, "
                                                                                              "[%rd8+8192];\n"
                                                                                              "ld.global.v4.u32 {%r16, "
                                                                                              "%r17, %r18, %r19}, "
                                                                                              "[%rd8+12288];\n"
                                                                                              "xor.b32 %r4, %r4, "
                                                                                              "%r5;\nxor.b32 %r6, %r6, "
                                                                                              "%r7;\nxor.b32 %r8, %r8, "
                                                                                              "%r9;\n"
                                                                                              "xor.b32 %r10, %r10, "
                                                                                              "%r11;\nxor.b32 %r12, "
                                                                                              "%r12, %r13;\nxor.b32 "
                                                                                              "%r14, %r14, %r15;\n"
                                                                                              "xor.b32 %r16, %r16, "
                                                                                              "%r17;\nxor.b32 %r18, "
                                                                                              "%r18, %r19;\nxor.b32 %r4, "
                                                                                              "%r4, %r6;\n"
                                                                                              "xor.b32 %r8, %r8, "
                                                                                              "%r10;\nxor.b32 %r12, "
                                                                                              "%r12, %r14;\nxor.b32 "
                                                                                              "%r16, %r16, %r18;\n"
                                                                                              "xor.b32 %r4, %r4, "
                                                                                              "%r8;\nxor.b32 %r12, %r12, "
                                                                                              "%r16;\nxor.b32 %r4, %r4, "
                                                                                              "%r12;\n"
                                                                                              "setp.ne.u32 %p2, %r4, "
                                                                                              "0x5a5a5a5a;\n@%p2 bra "
                                                                                              "DONE;\n"
                                                                                              "st.global.u32 [%rd7], "
                                                                                              "%r4;\nDONE:\nret;\n}"
                                                                                              "\n" STREAM_HEAD("sketchc_nothing",
                                                                                                               "256") "DONE:\nret;\n}"
                                                                                                                      "\n";
#undef STREAM_HEAD

#endif
