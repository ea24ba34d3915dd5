-- The language server of sketchc in Neovim, 0.7 and later.
local M = {}

local defaults = { command = "sketchc" }

local function root_of(path)
  if vim.fs and vim.fs.find then
    local found = vim.fs.find(".git", { upward = true, path = vim.fs.dirname(path) })[1]
    if found then return vim.fs.dirname(found) end
  end
  return vim.fn.fnamemodify(path, ":p:h")
end

-- vim.lsp.start came with 0.8; before it a client is started once and attached by hand.
local function attach(options, buffer)
  local path = vim.api.nvim_buf_get_name(buffer)
  local config = { name = "sketchc", cmd = { options.command, "lsp" }, root_dir = root_of(path),
                   init_options = { target = options.target, arch = options.arch } }
  if vim.lsp.start then return vim.lsp.start(config, { bufnr = buffer }) end
  if not M.client or not vim.lsp.get_client_by_id(M.client) then M.client = vim.lsp.start_client(config) end
  if M.client then vim.lsp.buf_attach_client(buffer, M.client) end
  return M.client
end

local function clients(buffer)
  if vim.lsp.get_clients then return vim.lsp.get_clients({ bufnr = buffer, name = "sketchc" }) end
  local found = {}
  for _, client in pairs(vim.lsp.buf_get_clients(buffer)) do
    if client.name == "sketchc" then table.insert(found, client) end
  end
  return found
end

local function client_of(buffer)
  return clients(buffer)[1] or error("sketchc: the language server does not run for this buffer")
end

-- Neovim 0.11 made requests methods of the client.
local function request(client, method, params, buffer)
  local answer
  if vim.fn.has("nvim-0.11") == 1 then
    answer = client:request_sync(method, params, 5000, buffer)
  else
    answer = client.request_sync(method, params, 5000, buffer)
  end
  if not answer then error("sketchc: no answer to " .. method) end
  if answer.err then error("sketchc: " .. answer.err.message) end
  return answer.result
end

local function position_params(client)
  return vim.lsp.util.make_position_params(0, client.offset_encoding)
end

function M.format(buffer)
  buffer = buffer or vim.api.nvim_get_current_buf()
  local client = client_of(buffer)
  local params = { textDocument = vim.lsp.util.make_text_document_params(buffer), options = { tabSize = 4, insertSpaces = true } }
  local edits = request(client, "textDocument/formatting", params, buffer)
  if edits then vim.lsp.util.apply_text_edits(edits, buffer, client.offset_encoding) end
end

-- Applies the first quick fix of the diagnostics in the cursor's line.
function M.fix()
  local buffer = vim.api.nvim_get_current_buf()
  local client = client_of(buffer)
  local line = vim.api.nvim_win_get_cursor(0)[1] - 1
  local params = {
    textDocument = vim.lsp.util.make_text_document_params(buffer),
    range = { start = { line = line, character = 0 }, ["end"] = { line = line, character = 10000 } },
    context = { diagnostics = {} },
  }
  local actions = request(client, "textDocument/codeAction", params, buffer)
  if not actions or #actions == 0 then return false end
  vim.lsp.util.apply_workspace_edit(actions[1].edit, client.offset_encoding)
  return true
end

-- What the sketch under the cursor becomes, in a split.
function M.show(form)
  local buffer = vim.api.nvim_get_current_buf()
  local client = client_of(buffer)
  local position = position_params(client).position
  local argument = { uri = vim.uri_from_bufnr(buffer), position = position, form = form }
  local result = request(client, "workspace/executeCommand", { command = "sketchc.show", arguments = { argument } }, buffer)
  vim.cmd("vnew")
  local view = vim.api.nvim_get_current_buf()
  vim.api.nvim_buf_set_lines(view, 0, -1, false, vim.split(result.text, "\n", { plain = true }))
  for name, value in pairs({ buftype = "nofile", bufhidden = "wipe", swapfile = false, modifiable = false }) do
    vim.api.nvim_buf_set_option(view, name, value)
  end
  vim.api.nvim_buf_set_option(view, "filetype", ({ cuda = "cuda", c = "c", ptx = "asm" })[form] or "")
  return view
end

function M.setup(options)
  options = vim.tbl_extend("force", defaults, options or {})
  if vim.filetype and vim.filetype.add then
    vim.filetype.add({ extension = { sketch = "sketch" } })
  end
  local group = vim.api.nvim_create_augroup("sketchc", { clear = true })
  vim.api.nvim_create_autocmd({ "BufRead", "BufNewFile" }, {
    group = group, pattern = "*.sketch",
    callback = function(event) vim.api.nvim_buf_set_option(event.buf, "filetype", "sketch") end,
  })
  vim.api.nvim_create_autocmd("FileType", {
    group = group, pattern = "sketch",
    callback = function(event) attach(options, event.buf) end,
  })
  vim.api.nvim_create_user_command("SketchShow", function(c) M.show(c.args) end, {
    nargs = 1, complete = function() return { "graph", "tile", "kernel", "cuda", "ptx", "c" } end,
  })
  vim.api.nvim_create_user_command("SketchFormat", function() M.format() end, {})
  vim.api.nvim_create_user_command("SketchFix", function() M.fix() end, {})
end

return M
