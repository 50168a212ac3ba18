-- in: flow_items, held_back
-- out: AT_ONCE, count, first_held_back, range_of
-- The claimed, let-in and held-back items of a flow, from `flow_items`; see `flow_entry`.
local AT_ONCE = 100
local function range_of(flow, from, to) return '[' .. flow .. '\0' .. from, '(' .. flow .. '\0' .. to end
-- Return how many items of a flow are claimed.
local function count(flow) return call('ZLEXCOUNT', flow_items, range_of(flow, 'c', 'd')) end
-- Return the first held-back item of a flow, its order, and its entry. Remove entries of items that were deleted or
-- raised.
local function first_held_back(flow)
  local from, to = range_of(flow, 'w', 'x')
  for look = 1, 11 do
    local entries = call('ZRANGEBYLEX', flow_items, from, to, 'LIMIT', '0', look == 1 and 1 or AT_ONCE)
    if #entries == 0 then return end
    local stale = { 'ZREM', flow_items }
    for _, entry in ipairs(entries) do
      local item = string.sub(entry, #flow + 11)
      local order = #entry >= #flow + 10 and struct.unpack('>d', entry, #flow + 3)
      if order and tonumber(call('ZSCORE', held_back, item) or nil) == order then
        if #stale > 2 then call(unpack(stale)) end
        return item, order, entry
      end
      stale[#stale + 1] = entry
    end
    call(unpack(stale))
  end
end
