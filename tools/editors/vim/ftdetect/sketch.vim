autocmd BufRead,BufNewFile *.sketch setfiletype sketch
