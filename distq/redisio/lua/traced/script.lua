local call = redis.call
local meta, trace = KEYS.meta, KEYS.trace
local at, due_items, revived_items, taken_back, args
local traced = call('HGET', meta, 'trace')
local function run()
--- @script
end
local reply = run()
-- While the queue is traced, each call leaves one entry: what it was asked and answered, and what else moved. A trace
-- that cannot be written ends, for whoever reads it relies on every call; the queue goes on.
if traced and traced ~= '' then
  local ends, limit, longest = string.match(traced, '^(%d+) (%d+) (%d+)$')
  local moved = { call = 'NAME', at = at and string.format('%.0f', at), due = due_items, taken_back = taken_back }
  moved.revived = revived_items
  local function append()
    moved.args, moved.reply = args or ARGV, reply
    local entry = cjson.encode(moved)
    if #entry > tonumber(longest) then
      moved.args, moved.reply, moved.due, moved.taken_back = nil, nil, nil, nil
      moved.revived, moved.cut = nil, #entry
      entry = cjson.encode(moved)
    end
    local xadd = { 'XADD', trace, 'MAXLEN', '~', limit, '*', 'entry', entry }
    call(unpack(xadd))
  end
  local stop = { 'HSET', meta, 'trace', '' }
  local is_over = not ends or (at and at >= tonumber(ends))
  if is_over or not pcall(append) then pcall(call, unpack(stop)) end
end
return reply
