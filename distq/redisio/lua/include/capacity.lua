-- How many of the items, from the first, fit into a queue of at most `max_length`; what is pending needs no room.
local function fitting(items, max_length)
  local room = max_length - call('ZCARD', ready) - call('ZCARD', dirty) - call('ZCARD', delayed)
  if #items <= room then return #items end
  local now_ready, now_dirty = call('ZMSCORE', ready, unpack(items)), call('ZMSCORE', dirty, unpack(items))
  local later = call('ZMSCORE', delayed, unpack(items))
  for i = 1, #items do
    if not (now_ready[i] or now_dirty[i] or later[i]) then
      room = room - 1
      if room < 0 then return i - 1 end
    end
  end
  return #items
end
