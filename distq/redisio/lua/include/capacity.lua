-- in: bounded, delayed, dirty, held_back, ready, suspects
-- out: fitting
-- Return how many of the items, from the first, fit into a queue of at most `max_length`. Pending items need no room.
local function fitting(items, max_length)
  local free = max_length
  for _, key in ipairs({ ready, suspects, dirty, delayed }) do free = free - call('ZCARD', key) end
  if bounded then free = free - call('ZCARD', held_back) end
  if #items <= free then return #items end
  local now_ready, now_dirty = call('ZMSCORE', ready, unpack(items)), call('ZMSCORE', dirty, unpack(items))
  local later, suspected = call('ZMSCORE', delayed, unpack(items)), call('ZMSCORE', suspects, unpack(items))
  local is_held_back = bounded and call('ZMSCORE', held_back, unpack(items)) or {}
  for i = 1, #items do
    if not (now_ready[i] or now_dirty[i] or later[i] or suspected[i] or is_held_back[i]) then
      free = free - 1
      if free < 0 then return i - 1 end
    end
  end
  return #items
end
