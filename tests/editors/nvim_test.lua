-- Runs in headless Neovim: opens a wrong file, sees the diagnostic, applies the fix, formats. With
-- SKETCHC_TEST_NEW=1 the functions that came after 0.7 are stubbed in, so that their call style runs too.
local function fail(text)
  io.stderr:write("not ok: " .. text .. "\n")
  vim.cmd("cquit 1")
end
local function check(condition, text)
  if not condition then fail(text) end
end

local calls = {}
if vim.env.SKETCHC_TEST_NEW then
  vim.lsp.start = vim.lsp.start or function(config, options)
    calls.start = true
    local id = vim.lsp.start_client(config)
    vim.lsp.buf_attach_client(options.bufnr, id)
    return id
  end
  vim.lsp.get_clients = vim.lsp.get_clients or function(filter)
    calls.get_clients = true
    local found = {}
    for _, client in pairs(vim.lsp.buf_get_clients(filter.bufnr)) do
      if client.name == filter.name then table.insert(found, client) end
    end
    return found
  end
  vim.fs = vim.fs or { find = function() calls.find = true return {} end, dirname = function(p) return vim.fn.fnamemodify(p, ":h") end }
end

require("sketchc").setup({ command = vim.env.SKETCHC })
vim.cmd("edit " .. vim.env.SKETCHC_TEST_FILE)
local buffer = vim.api.nvim_get_current_buf()
check(vim.bo.filetype == "sketch", "the file type is " .. vim.bo.filetype)
check(vim.wait(20000, function() return #vim.diagnostic.get(buffer) > 0 end), "no diagnostic came")
local found = vim.diagnostic.get(buffer)[1]
check(found.message:find("the loop counts tiles") ~= nil, "another diagnostic: " .. found.message)

vim.api.nvim_win_set_cursor(0, { found.lnum + 1, 0 })
check(require("sketchc").fix(), "no fix was offered")
local line = vim.api.nvim_buf_get_lines(buffer, found.lnum, found.lnum + 1, false)[1]
check(line:gsub(" ", ""):find("X[i*T:(i+1)*T]", 1, true) ~= nil, "the fix gave: " .. line)
check(vim.wait(20000, function() return #vim.diagnostic.get(buffer) == 0 end), "the diagnostic stays")

require("sketchc").format()
local text = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n") .. "\n"
check(text == vim.fn.system({ vim.env.SKETCHC, "fmt", "-" }, text), "not formatted:\n" .. text)
check(text:find("x = alloc([T])", 1, true) ~= nil, "not formatted:\n" .. text)

vim.api.nvim_win_set_cursor(0, { 6, 0 })
local view = require("sketchc").show("cuda")
check(table.concat(vim.api.nvim_buf_get_lines(view, 0, -1, false), "\n"):find("__global__", 1, true) ~= nil, "no CUDA was shown")
if vim.env.SKETCHC_TEST_NEW then
  check(vim.fn.has("nvim-0.8") == 1 or (calls.start and calls.get_clients and calls.find), "the newer calls were not made")
end
vim.cmd("qall!")
