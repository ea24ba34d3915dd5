" Syntax of .sketch files.
if exists('b:current_syntax')
  finish
endif

syntax keyword sketchBlock operator sketch implements view case edition
syntax keyword sketchSection symbols tensors scalars constexpr precision values require use
syntax keyword sketchControl for in if elif else
syntax keyword sketchOperator and or not
syntax keyword sketchBoolean true false True False
syntax keyword sketchConstant num_cores num_sms warp_size simd_width
syntax keyword sketchType f64 f32 bf16 f16 f8e4m3 f8e5m2 i64 i32 i16 i8 u64 u32 u16 u8 bool
syntax match sketchCall /\<[A-Za-z_][A-Za-z0-9_]*\ze(/
syntax match sketchNumber /\<\(0[xX][0-9a-fA-F]\+\|[0-9][0-9_]*\(\.[0-9]*\)\?\([eE][+-]\?[0-9]\+\)\?\)/
syntax match sketchArrow /->/
syntax match sketchHint /@[A-Za-z_]\+/
syntax region sketchString start=/"/ end=/"/ oneline
syntax region sketchString start=/'/ end=/'/ oneline
syntax match sketchComment /#.*$/ contains=@Spell

highlight default link sketchBlock Structure
highlight default link sketchSection Statement
highlight default link sketchControl Conditional
highlight default link sketchOperator Operator
highlight default link sketchBoolean Boolean
highlight default link sketchConstant Constant
highlight default link sketchType Type
highlight default link sketchCall Function
highlight default link sketchNumber Number
highlight default link sketchArrow Operator
highlight default link sketchHint PreProc
highlight default link sketchString String
highlight default link sketchComment Comment
let b:current_syntax = 'sketch'
