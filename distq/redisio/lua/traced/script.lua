local call = redis.call
local meta, trace = KEYS.meta, KEYS.trace
local at, due_items, revived_items, taken_back, args, switched_off
local traced = call('HGET', meta, 'trace')
local function run()
--- @script
end
local reply = run()
-- While the queue is traced, each call writes one entry: its arguments, its reply, and the other items that it moved.
-- If an entry cannot be written, the trace ends, because its readers rely on every call; the queue continues.
if traced and traced ~= '' then
  local ends, limit, longest, half, bytes, entries, before, match =
    string.match(traced, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  local moved = { call = 'NAME', at = at and string.format('%.0f', at), due = due_items, taken_back = taken_back }
  moved.asks, moved.revived = 'ASKS', revived_items
  -- Keep the calls of these five scripts, and calls that name a matching item; only * is special in `match`.
  local function is_wanted()
    if match == '' or string.find('open close pause resume trace', 'NAME', 1, true) then return true end
    local pieces = {}
    for piece in string.gmatch(match .. '*', '([^*]*)%*') do pieces[#pieces + 1] = piece end
    local function matches(name)
      local first, last = pieces[1], pieces[#pieces]
      if #pieces == 1 then return name == match end
      if string.sub(name, 1, #first) ~= first then return false end
      local from = #first + 1
      for i = 2, #pieces - 1 do
        local _, to = string.find(name, pieces[i], from, true)
        if not to then return false end
        from = to + 1
      end
      return #name - #last + 1 >= from and string.sub(name, #name - #last + 1) == last
    end
    local function names_one(list)
      for _, name in ipairs(list or {}) do
        if matches(name) then return true end
      end
    end
    for _, taken in ipairs(taken_back or {}) do
      if matches(taken[1]) then return true end
    end
    local claimed = type(reply) == 'table' and reply[6] -- the reply of a turn
    local asked = 'NAME' ~= 'heartbeat' and (args or ARGV) -- its arguments describe a process
    return names_one(asked) or names_one(due_items) or names_one(revived_items) or names_one(claimed)
  end
  local function append()
    if not is_wanted() then return end
    moved.args, moved.reply, moved.match = args or ARGV, reply, match ~= '' and match or nil
    local entry = cjson.encode(moved)
    if #entry > tonumber(longest) then
      moved.args, moved.reply, moved.due, moved.taken_back = nil, nil, nil, nil
      moved.revived, moved.cut = nil, #entry
      entry = cjson.encode(moved)
    end
    -- Count bytes up to half of the limit, then start again: the trace keeps this half and the half before.
    bytes, entries = bytes + #entry, entries + 1
    if bytes > tonumber(half) then bytes, entries, before = #entry, 1, entries - 1 end
    local kept = math.min(limit, before + entries)
    local xadd = { 'XADD', trace, 'MAXLEN', '~', string.format('%d', kept), '*', 'entry', entry }
    call(unpack(xadd))
    if switched_off then return end
    local counted = { 'HSET', meta, 'trace' }
    counted[4] = string.format('%s %s %s %s %d %d %d ', ends, limit, longest, half, bytes, entries, before) .. match
    call(unpack(counted))
  end
  local stop = { 'HSET', meta, 'trace', '' }
  local is_over = not ends or (at and at >= tonumber(ends))
  if is_over or not pcall(append) then pcall(call, unpack(stop)) end
end
return reply
