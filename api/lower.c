/* From a built module to kernels for a target, and to their code. */
#include "api_internal.h"

#include "emit.h"
#include "frontend.h"
#include "sketchc_config.h"

#include <string.h>

enum { HAVE_LLVM = SKETCHC_HAVE_LLVM };

static bool has_form(EmitTargetId target, const EmitForm *form) {
    return form->targets >> target & 1;
}

/* The target given, else one that has the form, which says so where it is missing in this build. */
static bool choose_emitter(sketchc_unit *unit, const char *name, const EmitForm *form, Compile *c) {
    EmitTargetId usual = HAVE_LLVM ? EMIT_NVPTX : EMIT_CUDA;
    c->emitter = name ? emit_target_named(name) : !form || has_form(usual, form) ? usual : emit_target_of_form(form);
    if (c->emitter == EMIT_TARGET_COUNT)
        return api_usage(unit,
                         arena_printf(unit->arena, "there is no target \"%s\"; the targets are %s", name, emit_target_list(unit->arena)));
    return !form || has_form(c->emitter, form) ||
           api_usage(unit, arena_printf(unit->arena, "--emit=%s does not go with -t %s", form->name, name));
}

bool api_for_processor(const sketchc_options *options) {
    EmitTargetId id = options->target ? emit_target_named(options->target) : (EmitTargetId)0;
    return id < EMIT_TARGET_COUNT && emit_target(id)->cpu;
}

bool api_target(sketchc_unit *unit, const sketchc_options *options, const char *form, Compile *c) {
    c->given = *options;
    if (!choose_emitter(unit, options->target, emit_form_named(form), c)) return false;
    const EmitTarget *emitter = emit_target(c->emitter);
    const char *text = options->target_file, *arch = options->arch ? options->arch : emitter->arch;
    c->target = text ? target_parse(unit->arena, &unit->diags, "the target file", text, strlen(text))
                     : target_find(unit->arena, &unit->diags, arch);
    if (!c->target) return false;
    bool cpu = c->target->kind == TARGET_CPU;
    if (unit->file) unit->file->warp_size = cpu ? 1 : c->target->warp_size;
    if (unit->file) unit->file->simd_width = cpu ? c->target->simd_bytes / 4 : 4;
    if (cpu == emitter->cpu) return true;
    return api_usage(unit, arena_printf(unit->arena, "--arch=%s does not go with -t %s", arch, emitter->name));
}

/* Does the option's value name passes, as far as it is given? One more word may stand for them. */
static bool names_passes(sketchc_unit *unit, const char *given, const char *word) {
    const PassId *passes;
    size_t count;
    return !given || strcmp(given, word) == 0 || pipeline_parse(unit->arena, &unit->diags, given, &passes, &count);
}

enum { CPU_VECTOR_REGISTERS = 16 };

static bool report_allocs(sketchc_unit *unit, const Compile *c) {
    unsigned errors = unit->diags.error_count;
    const Target *t = c->target;
    AllocMachine machine = {.gpu = t->kind == TARGET_CUDA,
                            .register_bytes = t->simd_bytes * CPU_VECTOR_REGISTERS,
                            .l1_bytes = t->l1_bytes,
                            .l2_bytes = t->l2_bytes,
                            .strict = c->given.strict_hints};
    if (unit->file) frontend_report_allocs(unit->file, &machine, &unit->diags);
    return unit->diags.error_count == errors;
}

bool api_lower(sketchc_unit *unit, const Compile *c, IrModule *module) {
    PassContext ctx = {.module = module,
                       .target = c->target,
                       .diags = &unit->diags,
                       .deterministic = c->given.deterministic,
                       .strict_hints = c->given.strict_hints,
                       .most_ops = unit->most_ops};
    PassReport *report = &unit->report;
    PassOptions options = {.print_after = c->given.print_ir_after,
                           .stop_after = c->given.stop_after,
                           .verify_each = c->given.verify_each,
                           .dump = &unit->dump,
                           .on_reproducer = c->given.on_reproducer,
                           .context = c->given.context,
                           .on_pass = api_tell_pass,
                           .pass_context = unit};
    size_t count;
    const PassId *passes = pipeline_for(c->target->kind, &count);
    if (c->given.passes && !pipeline_parse(unit->arena, &unit->diags, c->given.passes, &passes, &count)) return false;
    if (!names_passes(unit, c->given.stop_after, "") || !names_passes(unit, c->given.print_ir_after, "all")) return false;
    if (!api_meets_requires(unit, c, module)) return false;
    bool held = report_allocs(unit, c);
    unit->told = &c->given;
    bool ok = passes_run(&ctx, passes, count, &options, report) && held;
    pass_report_print(report, &unit->times);
    return ok;
}

/* Code beyond this is refused: no assembler takes it in reasonable time. */
enum { CODE_LIMIT = 16 << 20 };

/* The code, below a comment that says from what and by what it was made. */
bool api_code(sketchc_unit *unit, const Compile *c, const IrModule *kernels, const char *name, Str *out) {
    const EmitForm *form = emit_form_named(name);
    EmitOptions options = {.arch = c->target->arch, .fault = c->given.fault, .line_directives = c->line_directives};
    api_head_comment(unit, c->target, form->comment, out);
    api_progress(unit, &c->given, "code as", name);
    if (!form->emit(kernels, &options, out, &unit->diags)) return false;
    if (out->len <= CODE_LIMIT) return true;
    diag_report(&unit->diags, DIAG_code_too_large, SPAN_NONE, (long long)out->len, (long long)CODE_LIMIT);
    return false;
}

const char *api_form(const Compile *c) {
    return emit_target(c->emitter)->form;
}
