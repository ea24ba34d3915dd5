/* What rt_products reads out of an artifact's code. */
#include "check.h"
#include "runtime.h"

static void expect(ArtifactBlobKind kind, const char *code, const char *graph, const char *products) {
    ArtifactBlob blob = {kind, "sm_90a", (const unsigned char *)code, strlen(code)};
    Artifact a = {.blob_count = 1, .blobs = &blob, .graph = graph};
    Str out;
    str_init(&out);
    rt_products(&a, &out);
    CHECK_STR(out.len ? out.data : "", products);
    str_release(&out);
}

int main(void) {
    const char *product = "%y = graph.contract(%A, %B) {precision = \"f8\"}", *none = "%y = add(%A, %B)";
    expect(ARTIFACT_PTX,
           "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%f1}, %rd1;\n"
           "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%f2}, %rd1;\n",
           product, "f16 into f32 by wgmma");
    expect(ARTIFACT_CUDA_C,
           "asm volatile(\"wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0}\");\n"
           "asm(\"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1}\");",
           product, "tf32 into f32 by wgmma, s8 into s32 by mma.sync");
    expect(ARTIFACT_PTX, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%r1};", product, "e4m3 into f32 by mma.sync");
    expect(ARTIFACT_PTX,
           "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1};\nmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1};", product,
           "bf16 into f32 by mma.sync, f16 into f32 by mma.sync");
    expect(ARTIFACT_PTX, "fma.rn.f32 %f1, %f2, %f3, %f1;", product, "multiply-adds");
    expect(ARTIFACT_PTX, "add.rn.f32 %f1, %f2, %f3;", none, "");
    expect(ARTIFACT_PTX, "mma.sync.aligned.m16", none, "");
    expect(ARTIFACT_CUBIN, "\177ELF", product, ""); /* not known */
    return 0;
}
