" Indentation of .sketch files: a level behind `:` and `{`, one less before `}` and `else`.
if exists('b:did_indent')
  finish
endif
let b:did_indent = 1
setlocal indentexpr=SketchIndent() indentkeys=o,O,0},=else,=elif shiftwidth=4 expandtab
if exists('*SketchIndent')
  finish
endif

function SketchIndent()
  let before = prevnonblank(v:lnum - 1)
  if before == 0
    return 0
  endif
  let text = substitute(getline(before), '#.*$', '', '')
  let level = indent(before)
  if text =~# '[:{]\s*$'
    let level += shiftwidth()
  endif
  if getline(v:lnum) =~# '^\s*\(}\|else\>\|elif\>\)'
    let level -= shiftwidth()
  endif
  return max([level, 0])
endfunction
